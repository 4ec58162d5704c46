package pid1

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// This file keeps what became of steps, for the supervisor, which reads it when the job is
// over here. It is a file, because this process may be killed at any moment. In an
// allocation that resumed from an image it is a new one: an end is told once.

// beginning is the record of a step that has just begun.
func beginning(number uint32, argv step.Strings, tasks int) step.Record {
	name := ""
	if len(argv) > 0 {
		name = filepath.Base(argv[0])
	}
	name = strings.ToValidUTF8(name[:min(len(name), step.MaxRecordName)], "")
	return step.Record{Step: number, Name: name, Tasks: tasks, StartMS: time.Now().UnixMilli()}
}

// addEnded adds a task that has ended.
func addEnded(r *step.Record, rank uint32, how *ending) {
	if how.Signaled() {
		r.AddEnd(0, int(how.Signal()))
	} else {
		r.AddEnd(how.ExitStatus(), 0)
	}
	used := &how.used
	r.Add(rank, &step.Use{
		UserUS: used.Utime.Nano() / 1000, SystemUS: used.Stime.Nano() / 1000, MemoryKiB: used.Maxrss,
		ReadBytes: used.Inblock * blockBytes, WrittenBytes: used.Oublock * blockBytes,
	})
}

// blockBytes is what getrusage(2) counts input and output in.
const blockBytes = 512

// over is the end of the last task. A clock that was set back does not make a step end
// before it began.
func over(r *step.Record) { r.EndMS = max(time.Now().UnixMilli(), r.StartMS) }

// records writes steps.jsonl.
type records struct{ mu sync.Mutex }

// MaxStepsFile bounds steps.jsonl: some 50,000 steps. What comes later is not recorded.
const MaxStepsFile = 32 << 20

// write adds a line. What cannot be written is not recorded: the step goes on. The job may
// have put anything there.
func (w *records) write(dir string, r *step.Record) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	const noWait = unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(filepath.Join(dir, StepsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE|noWait, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > MaxStepsFile {
		return
	}
	_, _ = f.Write(append(line, '\n'))
}

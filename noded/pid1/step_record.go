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

// StepRecord is a line of steps.jsonl: what a step does, or did, on this node.
type StepRecord struct {
	Step    uint32 `json:"step"`
	Name    string `json:"name"` // of its program
	Tasks   int    `json:"tasks"`
	CPUs    int    `json:"cpus,omitempty"` // that it has
	GPUs    int    `json:"gpus,omitempty"`
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms,omitempty"` // 0 = it has begun
	// Code and Signal are those of the task that ended worst: of two, the one with the
	// higher status, where a signal counts 128 more.
	Code   int `json:"code,omitempty"`
	Signal int `json:"signal,omitempty"`
	// Times are of all its tasks, with the processes for which they waited.
	UserUS   int64 `json:"user_us,omitempty"`
	SystemUS int64 `json:"system_us,omitempty"`
	// PeakKiB is the most that one process of it had in memory at once, and PeakRank its
	// task. LeastUS is the time of the task with the least.
	PeakKiB    int64  `json:"peak_kib,omitempty"`
	PeakRank   uint32 `json:"peak_rank,omitempty"`
	SumKiB     int64  `json:"sum_kib,omitempty"` // of the tasks' peaks
	LeastUS    int64  `json:"least_us,omitempty"`
	LeastRank  uint32 `json:"least_rank,omitempty"`
	ReadBytes  int64  `json:"read_bytes,omitempty"` // from disks, and to them
	WriteBytes int64  `json:"write_bytes,omitempty"`

	ended int // tasks
}

// MaxStepName bounds the name of a step.
const MaxStepName = 64

// beginning is the record of a step that has just begun.
func beginning(number uint32, argv step.Strings, tasks int) StepRecord {
	name := ""
	if len(argv) > 0 {
		name = filepath.Base(argv[0])
	}
	name = strings.ToValidUTF8(name[:min(len(name), MaxStepName)], "")
	return StepRecord{Step: number, Name: name, Tasks: tasks, StartMS: time.Now().UnixMilli()}
}

// addTask adds the end of a task.
func (r *StepRecord) addTask(rank uint32, how *ending) {
	code, signal := 0, 0
	if how.Signaled() {
		signal = int(how.Signal())
	} else {
		code = how.ExitStatus()
	}
	if statusOf(code, signal) > statusOf(r.Code, r.Signal) {
		r.Code, r.Signal = code, signal
	}
	used := &how.used
	user, system := used.Utime.Nano()/1000, used.Stime.Nano()/1000
	if r.ended == 0 || user+system < r.LeastUS {
		r.LeastUS, r.LeastRank = user+system, rank
	}
	if used.Maxrss > r.PeakKiB {
		r.PeakKiB, r.PeakRank = used.Maxrss, rank
	}
	r.ended++
	r.UserUS += user
	r.SystemUS += system
	r.SumKiB += used.Maxrss
	r.ReadBytes += used.Inblock * blockBytes
	r.WriteBytes += used.Oublock * blockBytes
}

// blockBytes is what getrusage(2) counts input and output in.
const blockBytes = 512

func statusOf(code, signal int) int {
	if signal != 0 {
		return 128 + signal
	}
	return code
}

// over is the end of its last task. A clock that was set back does not make it end before
// it began.
func (r *StepRecord) over() { r.EndMS = max(time.Now().UnixMilli(), r.StartMS) }

// records writes steps.jsonl.
type records struct{ mu sync.Mutex }

// MaxStepsFile bounds steps.jsonl: some 100,000 steps. What comes later is not recorded.
const MaxStepsFile = 32 << 20

// write adds a line. What cannot be written is not recorded: the step goes on. The job may
// have put anything there.
func (w *records) write(dir string, r *StepRecord) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(dir, StepsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE|openNoWait, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > MaxStepsFile {
		return
	}
	_, _ = f.Write(append(line, '\n'))
}

// openNoWait does not wait for the reader of a pipe, nor follow a link.
const openNoWait = unix.O_NOFOLLOW | unix.O_NONBLOCK

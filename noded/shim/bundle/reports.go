package bundle

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Exit is what process 1 left in exit.json. The job's user can write
// that file, so it decides nothing but this job's own exit code.
type Exit pid1.Exit

// MaxReportBytes bounds what is read of a file that belongs to a job.
const MaxReportBytes = 64 << 10

// Fill puts the report into result.
func (e *Exit) Fill(result *pb.AllocEnded) {
	result.ExitCode = uint32(e.Code) & 0xff
	result.ExitSignal = uint32(e.Signal) & 0x7f
	result.StartMs = e.StartMS
	if e.StartMS == 0 {
		result.Detail = Clip(e.Detail)
	}
}

// DiedOfDump says whether the script was ended, in a time in which criu let go
// of it in the middle of a dump, by one of the signals of a program whose code
// is not its own. Without a report it is process 1 that has just ended, which
// exits with 2 when that happens to it.
// SIGPIPE is among them, because the code that CRIU puts into a process writes to CRIU.
func (e *Exit) DiedOfDump(fromMS, toMS int64) bool {
	if e == nil {
		now := time.Now().UnixMilli()
		return now >= fromMS && now <= toMS
	}
	switch unix.Signal(e.Signal) {
	case unix.SIGTRAP, unix.SIGSEGV, unix.SIGILL, unix.SIGBUS, unix.SIGSYS, unix.SIGPIPE:
		return e.EndMS >= fromMS && e.EndMS <= toMS
	}
	return false
}

// ReadExit answers process 1's report in the directory that it shares with its
// supervisor, or nil when there is none.
func ReadExit(run string) *Exit {
	report := new(Exit)
	if readJobFile(filepath.Join(run, pid1.ExitFile), report) != nil {
		return nil
	}
	return report
}

// ReadStart answers when the script started, or 0.
func ReadStart(run string) int64 {
	var start pid1.Start
	if readJobFile(filepath.Join(run, pid1.StartFile), &start) != nil {
		return 0
	}
	return start.StartMS
}

// readJobFile reads a file that a job may have replaced by anything.
func readJobFile(path string, value any) error {
	data, err := ReadRegular(path, MaxReportBytes)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}

// Clip bounds a sentence that came from inside the job.
func Clip(text string) string {
	const longest = 1024
	if len(text) > longest {
		text = text[:longest]
	}
	// Joined errors are on lines of their own.
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	clean := make([]rune, 0, len(text))
	for _, r := range text {
		if !unicode.IsControl(r) && r != '\uFFFD' {
			clean = append(clean, r)
		}
	}
	return string(clean)
}

func UsageMessage(usage cgroup.Usage) *pb.Usage {
	return &pb.Usage{PeakMemoryBytes: usage.PeakMemoryBytes, CpuNs: usage.CPUNs}
}

package shim

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// exitReport is what process 1 left in exit.json. The job's user can write
// that file, so it decides nothing but this job's own exit code.
type exitReport pid1.Exit

// maxReportBytes bounds what is read of a file that belongs to a job.
const maxReportBytes = 64 << 10

// fill puts the report into result.
func (e *exitReport) fill(result *pb.PartEnded) {
	result.ExitCode = uint32(e.Code) & 0xff
	result.ExitSignal = uint32(e.Signal) & 0x7f
	result.StartMs = e.StartMS
	if e.StartMS == 0 {
		result.Detail = clip(e.Detail)
	}
}

// diedOfDump is told of a job that a criu which ended too early left in a state
// in which it could not go on.
const diedOfDump = "criu ended in the middle of saving the job, and the job with it"

// dumpShadow is for how long around such an end it is held responsible.
const dumpShadow = 10 * time.Second

// diedOfDump says whether the script was ended, in a time in which criu let go
// of it in the middle of a dump, by one of the signals of a program whose code
// is not its own. Without a report it is process 1 that has just ended, which
// exits with 2 when that happens to it.
func (e *exitReport) diedOfDump(fromMS, toMS int64) bool {
	if e == nil {
		now := time.Now().UnixMilli()
		return now >= fromMS && now <= toMS
	}
	switch unix.Signal(e.Signal) {
	case unix.SIGTRAP, unix.SIGSEGV, unix.SIGILL, unix.SIGBUS, unix.SIGSYS:
		return e.EndMS >= fromMS && e.EndMS <= toMS
	}
	return false
}

// exit answers process 1's report, or nil when there is none.
func (d directory) exit() *exitReport {
	report := new(exitReport)
	if readJobFile(d.path(runDir, pid1.ExitFile), report) != nil {
		return nil
	}
	return report
}

// startMS answers when the script started, or 0.
func (d directory) startMS() int64 {
	var start pid1.Start
	if readJobFile(d.path(runDir, pid1.StartFile), &start) != nil {
		return 0
	}
	return start.StartMS
}

// readJobFile reads a file that a job may have replaced by anything.
func readJobFile(path string, value any) error {
	data, err := readRegular(path, maxReportBytes)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, value)
}

// clip bounds a sentence that came from inside the job.
func clip(text string) string {
	const longest = 1024
	if len(text) > longest {
		text = text[:longest]
	}
	// Errors that are joined stand on lines of their own.
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	clean := make([]rune, 0, len(text))
	for _, r := range text {
		if !unicode.IsControl(r) && r != '\uFFFD' {
			clean = append(clean, r)
		}
	}
	return string(clean)
}

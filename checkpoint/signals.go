package checkpoint

import (
	"encoding/binary"
	"path/filepath"
	"slices"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/siginfo"
	"golang.org/x/sys/unix"
)

// initCore is the image of process 1 itself.
const initCore = "core-1.img"

// dropContinues takes SIGCONT from the signals that wait for process 1. CRIU sends
// such signals again while it begins to trace the restored process, and one that is
// traced stops at each SIGCONT: then CRIU takes the restore for failed. Nothing is
// lost: a SIGCONT wakes a process when it is sent, and process 1 has no handler for
// it.
func dropContinues(images string) error {
	return changeEntries(filepath.Join(images, initCore), func(core *criu_core.CoreEntry) bool {
		dropped := drop(core.GetTc().GetSignalsS(), unix.SIGCONT)
		return drop(core.GetThreadCore().GetSignalsP(), unix.SIGCONT) || dropped
	})
}

// drop removes a signal from a queue, and says whether it was in it.
func drop(queue *siginfo.SignalQueueEntry, signal unix.Signal) bool {
	before := len(queue.GetSignals())
	if before == 0 {
		return false
	}
	queue.Signals = slices.DeleteFunc(queue.Signals, func(s *siginfo.SiginfoEntry) bool {
		info := s.GetSiginfo() // siginfo_t, which begins with the signal's number
		return len(info) >= 4 && unix.Signal(binary.NativeEndian.Uint32(info)) == signal
	})
	return len(queue.Signals) < before
}

package checkpoint

import (
	"path/filepath"

	core_x86 "github.com/checkpoint-restore/go-criu/v8/crit/images/core-x86"
	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"golang.org/x/sys/unix"
)

// Some system calls with a time limit are continued by the kernel after a stop from what
// it has kept of them (restart_syscall(2)). CRIU cannot save that, and lets them fail with
// EINTR. A program that handles no signals does not expect that of poll(2) or sleep(3): tail
// -f ends there. So they are made once more. Nothing of them was done, and their arguments
// are still there. A call that has a limit may wait for longer than it would have: at most
// for the whole time once more.

// The system calls of x86-64 that the kernel continues like that.
const (
	callPoll           = 7
	callNanosleep      = 35
	callFutex          = 202
	callClockNanosleep = 230
)

// lengthOfCall is that of the instruction that makes a system call.
const lengthOfCall = 2

// restartCalls has the threads of an image make such calls once more.
func restartCalls(images string) error {
	cores, err := filepath.Glob(filepath.Join(images, "core-*.img"))
	if err != nil {
		return err
	}
	for _, path := range cores {
		err := changeEntries(path, func(core *criu_core.CoreEntry) bool {
			if core.GetMtype() != criu_core.CoreEntry_X86_64 {
				return false
			}
			registers := core.GetThreadInfo().GetGpregs()
			if registers == nil || !wasContinued(registers) {
				return false
			}
			registers.Ax, registers.Ip = set(registers.GetOrigAx()), set(registers.GetIp()-lengthOfCall)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wasContinued says whether a thread is at the end of a call that fails only because CRIU
// says so: the kernel itself says EINTR in these only together with a handler of a signal,
// and then the thread is at the begin of that. A sleep that tells elsewhere how much is
// left has told it, and its caller knows what to do.
func wasContinued(r *core_x86.UserX86RegsEntry) bool {
	if r.GetMode() != core_x86.UserX86RegsMode_NATIVE || int64(r.GetAx()) != -int64(unix.EINTR) {
		return false
	}
	switch r.GetOrigAx() {
	case callPoll, callFutex:
		return true
	case callNanosleep:
		return r.GetSi() == 0 || r.GetSi() == r.GetDi()
	case callClockNanosleep:
		return r.GetR10() == 0 || r.GetR10() == r.GetDx()
	}
	return false
}

package prototest

import (
	"os/exec"
	"runtime"
	"sync"
)

// StartTied starts a program whose SysProcAttr has a Pdeathsig, and answers as
// its Start does.
//
// The kernel sends that signal when the thread that forked ends, not when the
// process does (prctl(2), PR_SET_PDEATHSIG). A thread of Go's ends when a
// goroutine that is locked to it does, as those do that take another user's
// identity; whatever was started from that thread would end with it. So all is
// started from one thread, which nothing else runs on.
func StartTied(command *exec.Cmd) error {
	starter.Do(func() {
		go func() {
			runtime.LockOSThread()
			for s := range starts {
				s.answer <- s.command.Start()
			}
		}()
	})
	answer := make(chan error)
	starts <- start{command, answer}
	return <-answer
}

type start struct {
	command *exec.Cmd
	answer  chan error
}

var (
	starter sync.Once
	starts  = make(chan start)
)

package prototest_test

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Who is tied to the process outlives the thread of whoever started it.
func TestStartTied(t *testing.T) {
	command := exec.Command("cat")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	thread := make(chan int)
	var begin func()
	begin = func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		if syscall.Gettid() == syscall.Getpid() {
			go begin() // the first thread of a process is not ended by Go
			<-t.Context().Done()
			return
		}
		started <- prototest.StartTied(command)
		thread <- syscall.Gettid()
	}
	go begin()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	tid := <-thread
	prototest.Eventually(t, "the thread has ended", func() bool { return syscall.Tgkill(syscall.Getpid(), tid, 0) == syscall.ESRCH })
	_ = in.Close()
	if err := command.Wait(); err != nil {
		t.Errorf("cat, of which only the starter's thread had ended: %v", err)
	}
}

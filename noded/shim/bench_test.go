package shim

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPart measures one part from Launch to its result, and to the first
// instruction of its script, beside a bare fork and exec of the same script
// in new namespaces.
func BenchmarkPart(b *testing.B) {
	bed := newBed(b)
	var first time.Duration
	for b.Loop() {
		order := bed.order("exit 0")
		order.Spec.StandardOutput = "/dev/null"
		begin := time.Now()
		s := bed.launch(order)
		var startMS int64
		for {
			if result, err := s.Result(); err == nil {
				startMS = result.StartMs
				break
			}
			time.Sleep(time.Millisecond)
		}
		first += time.UnixMilli(startMS).Sub(begin)
		b.StopTimer()
		eventually(b, "the supervisor exits", func() bool { return !s.Alive() })
		must(b, s.Forget())
		b.StartTimer()
	}
	b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "ms/first-instruction")
}

func BenchmarkBareNamespaces(b *testing.B) {
	newBed(b)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		cmd := exec.Command("/bin/sh", "-c", "exit 0")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
		must(b, cmd.Run())
	}
}

package shim

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
)

// A daemon that dies while it starts a supervisor takes nothing with it.
func TestNobodyHearsListening(t *testing.T) {
	b := newBed(t)
	order := b.order("exit 7")
	dir := bundle.At(b.state, order.Alloc)
	must(t, bundle.Create(dir, &b.settings, order))
	self, err := os.Executable()
	must(t, err)
	deaf := exec.Command(self, client.Word, string(dir))
	said, err := deaf.StdoutPipe()
	must(t, err)
	deaf.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNS}
	must(t, deaf.Start())
	said.Close()
	defer func() { _ = deaf.Wait() }()
	eventually(t, "it ends", func() bool { _, err := dir.Result(); return err == nil })
	found, _, err := client.List(b.state, parent)
	must(t, err)
	wantExit(t, b.follow(found[0]).wait(), 7)
}

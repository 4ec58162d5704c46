package shim

import (
	"os"
	"testing"
)

// A daemon that dies while it starts a supervisor takes nothing with it.
func TestNobodyHearsListening(t *testing.T) {
	b := newBed(t)
	order := b.order("exit 7")
	dir := partDirectory(b.state, order.Part)
	must(t, makeDirectory(dir, &b.settings, order))
	self, err := os.Executable()
	must(t, err)
	said, err := startProcess(self, dir)
	must(t, err)
	said.Close()
	h, err := open(dir)
	must(t, err)
	eventually(t, "it ends", func() bool { _, err := h.Result(); return err == nil })
	wantExit(t, (&started{h, b}).wait(), 7)
}

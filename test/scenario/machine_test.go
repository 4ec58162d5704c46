package scenario

import (
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gleaner-hpc/gleaner/noded/logind/logindtest"
)

// standIns are the stand-ins for systemd-logind, by story.
var standIns sync.Map

// machine is `machine DELAY`, which starts a stand-in for systemd-logind that the nodes
// hear which are started after it (node CONFIG), and allows them that time; and then
// `machine goes`, `machine stays` and `machine waits` or `! machine waits`: whether
// somebody has it wait.
func machine(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: machine DELAY|goes|stays|waits")
	}
	kept, started := standIns.Load(ts.Name())
	if !started {
		delay, err := time.ParseDuration(args[0])
		ts.Check(err)
		m, err := logindtest.Open(logindtest.Settings{Delay: delay})
		ts.Check(err)
		ts.Defer(m.Close)
		standIns.Store(ts.Name(), m)
		ts.Setenv("DBUS_SYSTEM_BUS_ADDRESS", m.Address)
		return
	}
	m := kept.(*logindtest.Machine)
	switch args[0] {
	case "goes", "stays":
		ts.Check(m.Signal("PrepareForShutdown", args[0] == "goes"))
	case "waits":
		for deadline := time.Now().Add(patience(30 * time.Second)); (m.Locks() > 0) == neg; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				ts.Fatalf("%d locks are held", m.Locks())
			}
		}
	default:
		ts.Fatalf("no such word: %s", args[0])
	}
}

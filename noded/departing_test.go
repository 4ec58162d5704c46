package noded

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/logind/logindtest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// startInOrder starts a node as Run does. stop tells it to stop, and stopped is closed
// once it has.
func startInOrder(t *testing.T, socket string, s *fakeShims) (stop func(), stopped <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a := newAgent(testMachine(socket), s, "instance", slog.New(slog.NewTextHandler(logWriter{t}, nil)))
	done := make(chan struct{})
	go func() { defer close(done); a.serveInOrder(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return cancel, done
}

func (s *fakeSession) leaves() *pb.NodeLeaves {
	s.t.Helper()
	return expect(s, "NodeLeaves", (*pb.NodeMessage).GetNodeLeaves)
}

// TestLeavesInOrder: before the machine is switched off, the controllers hear of it and the
// machine waits until the jobs have left; when it is called off they hear that too.
func TestLeavesInOrder(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{Delay: time.Minute})
	socket := filepath.Join(t.TempDir(), "sock")
	controller := startController(t, socket)
	shims := newFakeShims(t)
	startInOrder(t, socket, shims)
	session := controller.next()
	machine.AwaitLocks(t, 1)
	if session.register.Leaves != nil {
		t.Errorf("it registers as one that leaves: %v", session.register.Leaves)
	}
	order := startOrder(1, 1)
	session.start(order)
	shims.get(1, 1).ready()
	session.ready()

	machine.Prepare(t, "PrepareForSleep", true)
	if said := session.leaves(); said.Stays || said.Why != "goes to sleep" || said.WithinMs < 50_000 || said.WithinMs > 55_000 {
		t.Errorf("told %v", said)
	}
	machine.Prepare(t, "PrepareForSleep", false)
	if said := session.leaves(); !said.Stays {
		t.Errorf("told %v", said)
	}

	machine.Prepare(t, "PrepareForShutdown", true)
	if said := session.leaves(); said.Stays || said.Why != "shuts down" {
		t.Errorf("told %v", said)
	}
	machine.AwaitLocks(t, 1) // the one before is gone
	time.Sleep(3 * departEvery)
	if machine.Locks() != 1 {
		t.Fatal("the machine goes while a job is on it")
	}
	session.end(order.Alloc)
	session.ended()
	session.acknowledge(order.Alloc)
	machine.AwaitLocks(t, 0)
}

// TestStopsAtOnce: a daemon that is only restarted leaves its jobs running; one that stops
// because the machine is switched off waits for them.
func TestStopsAtOnce(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{Delay: time.Second, StopTimeout: time.Minute})
	for _, state := range []string{"running", "degraded", "stopping"} {
		socket := filepath.Join(t.TempDir(), "sock")
		controller := startController(t, socket)
		shims := newFakeShims(t)
		stop, stopped := startInOrder(t, socket, shims)
		session := controller.next()
		order := startOrder(1, 1)
		session.start(order)
		shims.get(1, 1).ready()
		session.ready()
		machine.SystemState(state)
		stop()
		if state == "stopping" {
			if said := session.leaves(); said.Why != "shuts down" || said.WithinMs < 50_000 {
				t.Errorf("told %v", said)
			}
			select {
			case <-stopped:
				t.Error("it has stopped while a job was on it")
			case <-time.After(3 * departEvery):
			}
			session.end(order.Alloc)
			session.ended()
			session.acknowledge(order.Alloc)
		}
		prototest.Receive(t, "the daemon stops when the machine is "+state, stopped)
	}
}

// TestTellsAgain: a controller that comes later hears of it with the registration.
func TestTellsAgain(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{Delay: time.Minute, Preparing: "PreparingForShutdown"})
	socket := filepath.Join(t.TempDir(), "sock")
	controller := startController(t, socket)
	shims := newFakeShims(t)
	startInOrder(t, socket, shims)
	first := controller.next()
	order := startOrder(1, 1)
	first.start(order)
	shims.get(1, 1).ready()
	first.ready()
	machine.AwaitLocks(t, 1)
	time.Sleep(departEvery)
	controller.server.Stop()
	second := startController(t, socket).next()
	if said := second.register.Leaves; said.GetWhy() != "shuts down" || said.GetWithinMs() == 0 {
		t.Errorf("it registers with %v", said)
	}
	second.end(order.Alloc)
	second.ended()
	second.acknowledge(order.Alloc)
}

package logind_test

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/logind"
	"github.com/gleaner-hpc/gleaner/noded/logind/logindtest"
)

// follow hears what is told, until the test ends.
func follow(t *testing.T) <-chan logind.Going {
	t.Helper()
	heard := make(chan logind.Going, 8)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		logind.Follow(ctx, func(g logind.Going) { heard <- g }, func(err error) { t.Log(err) })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return heard
}

func next(t *testing.T, heard <-chan logind.Going) logind.Going {
	t.Helper()
	select {
	case g := <-heard:
		return g
	case <-time.After(10 * time.Second):
		t.Fatal("nothing was heard")
		return logind.Going{}
	}
}

func TestFollow(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{Delay: 7 * time.Second, StopTimeout: 30 * time.Second})
	heard := follow(t)
	machine.AwaitLocks(t, 1)
	if what, mode := machine.Asked(); what != "shutdown:sleep" || mode != "delay" {
		t.Errorf("it asked for %s, %s", what, mode)
	}

	machine.Prepare(t, "PrepareForShutdown", true)
	going := next(t, heard)
	if going.What != logind.Shutdown || !going.Begins || going.Within != 37*time.Second {
		t.Errorf("heard %+v: it waits as long as logind and then systemd do", going)
	}
	machine.AwaitLocks(t, 1)
	going.Done()
	going.Done() // twice does no harm
	machine.AwaitLocks(t, 0)

	// Somebody has called it off: the next one is waited for again.
	machine.Prepare(t, "PrepareForShutdown", false)
	if going := next(t, heard); going.What != logind.Shutdown || going.Begins {
		t.Errorf("heard %+v", going)
	}
	machine.AwaitLocks(t, 1)

	machine.Prepare(t, "PrepareForSleep", true)
	if going := next(t, heard); going.What != logind.Sleep || !going.Begins || going.Within != 7*time.Second {
		t.Errorf("heard %+v", going)
	}
	machine.Prepare(t, "PrepareForSleep", false)
	if going := next(t, heard); going.What != logind.Sleep || going.Begins {
		t.Errorf("heard %+v", going)
	}
	machine.AwaitLocks(t, 1)
}

// TestFollowLate: what has begun before is found.
func TestFollowLate(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{Delay: time.Second, Preparing: "PreparingForShutdown"})
	if going := next(t, follow(t)); going.What != logind.Shutdown || !going.Begins || going.Within != time.Second {
		t.Errorf("heard %+v: systemd does not know this process as a service", going)
	}
	_ = machine
}

// TestStopping: a machine that is switched off is told from a service that is restarted.
func TestStopping(t *testing.T) {
	machine := logindtest.Start(t, logindtest.Settings{StopTimeout: 5 * time.Minute})
	if stopping, _ := logind.Stopping(context.Background()); stopping {
		t.Error("only the service is stopped")
	}
	machine.SystemState("stopping")
	if stopping, within := logind.Stopping(context.Background()); !stopping || within != 5*time.Minute {
		t.Errorf("the machine is switched off: %v, %v", stopping, within)
	}
}

// TestNoBus: a machine without one is none that stops, and nothing waits for it.
func TestNoBus(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+t.TempDir()+"/none")
	begin := time.Now()
	if stopping, _ := logind.Stopping(context.Background()); stopping || time.Since(begin) > time.Second {
		t.Errorf("stopping %v after %v", stopping, time.Since(begin))
	}
	ctx, cancel := context.WithCancel(context.Background())
	troubles := 0
	logind.Follow(ctx, func(logind.Going) { t.Error("something was heard") }, func(error) { troubles++; cancel() })
	if troubles != 1 {
		t.Errorf("%d troubles", troubles)
	}
}

package noded

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/departure"
	"github.com/gleaner-hpc/gleaner/noded/logind"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the machine wait until the jobs have left it when it is switched off, or
// put to sleep. Package departure decides, and the controllers move the jobs.

// departEvery is how often it is looked whether the node may go.
const departEvery = 200 * time.Millisecond

// departing is whether the node leaves, guarded by agent.mu.
type departing struct {
	departure departure.Departure
	done      []func() // what lets the machine go
}

// followMachine hears of it until ctx ends.
func (a *agent) followMachine(ctx context.Context) {
	told := false
	logind.Follow(ctx, a.heardGoing, func(err error) {
		if !told {
			a.log.Info("systemd-logind cannot be heard, so jobs do not leave this machine before it is switched off: drain the node with evacuate=yes before you do", "error", err)
			told = true
		}
	})
}

// heardGoing takes what logind says.
func (a *agent) heardGoing(going logind.Going) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !going.Begins {
		a.departing.done = nil
		if a.departing.departure.Stay() {
			a.log.Info("the machine stays, or is back: jobs run here again")
			a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_NodeLeaves{NodeLeaves: &pb.NodeLeaves{Stays: true}}})
		}
		return
	}
	why := "shuts down"
	if going.What == logind.Sleep {
		why = "goes to sleep"
	}
	a.departing.done = append(a.departing.done, going.Done)
	a.departLocked(why, going.Within)
}

// departLocked has the jobs leave. The caller holds a.mu.
func (a *agent) departLocked(why string, within time.Duration) {
	if !a.departing.departure.Begin(why, within, boottime.Now()) {
		return
	}
	a.log.Info("the machine is about to go, and jobs leave it first", "reason", why, "within_ms", within.Milliseconds(), "allocs", len(a.allocs))
	a.sendLocked(&pb.NodeMessage{What: &pb.NodeMessage_NodeLeaves{NodeLeaves: a.departing.departure.Tell(boottime.Now())}})
}

// letGo lets the machine go once nothing keeps it. It reports whether nothing does.
func (a *agent) letGo() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.departing.departure.MayGo(len(a.allocs), a.session != nil, boottime.Now()) {
		return false
	}
	for _, done := range a.departing.done {
		done()
	}
	a.departing.done = nil
	return true
}

// serveInOrder serves until ctx ends, and where that is because the machine is switched
// off until its jobs have left.
func (a *agent) serveInOrder(ctx context.Context) {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		a.leaveFirst()
		stop()
	})()
	a.serve(serving)
}

// leaveFirst waits, when the daemon is told to stop because the machine is switched off,
// until its jobs have left. Otherwise they go on, and it returns at once.
func (a *agent) leaveFirst() {
	a.mu.Lock()
	leaves := a.departing.departure.Leaves()
	a.mu.Unlock()
	if !leaves {
		stopping, within := logind.Stopping(context.Background())
		if !stopping {
			return
		}
		a.mu.Lock()
		a.departLocked("shuts down", within)
		a.mu.Unlock()
	}
	for !a.letGo() {
		time.Sleep(departEvery)
	}
}

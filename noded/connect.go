package noded

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// How long one controller is tried. They are variables because tests cannot wait that
// long, and some must not hurry.
var (
	// connectDeadline bounds reaching it: one that hangs must not keep the node
	// from the others.
	connectDeadline = 3 * time.Second
	// registerDeadline bounds the registration after that. It is on a majority's
	// disks before it is answered, and every node may register at once.
	registerDeadline = 10 * time.Second
	// mostPatience bounds how long it may leave a renewal unanswered.
	mostPatience = 20 * time.Second
)

// Pauses between rounds over all controllers. The first spreads the nodes that
// all lost the same leader over the time in which another one is chosen; the
// longest is well below a lease. Each is between half and one and a half of
// what it says, at random.
const (
	firstReconnect = 200 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// leastPatience bounds how long a controller may leave a renewal unanswered.
const leastPatience = 2 * time.Second

// patienceOf is after how long without an answer another controller is looked
// for: soon enough to renew the lease there before it ends, and, where leases
// are short, not so soon that a busy controller is left.
func patienceOf(lease time.Duration) time.Duration {
	return min(max(lease/6, min(lease/2, leastPatience)), mostPatience)
}

// connect keeps a session open until ctx ends, trying the controllers in turn.
// Nodes begin at different ones: any of them serves any node.
func (a *agent) connect(ctx context.Context) {
	targets := a.machine.config.Controllers
	pause := newPause(firstReconnect, lastReconnect)
	next, failures := rand.IntN(len(targets)), 0
	for ctx.Err() == nil {
		target := targets[next%len(targets)]
		registered, err := a.hold(ctx, target)
		if ctx.Err() != nil {
			return
		}
		if registered != nil {
			pause.Reset()
			failures = 0
		}
		if errors.Is(err, errInventoryChanged) {
			a.log.Info("registering again", "reason", err)
			continue
		}
		a.log.Warn("no session with a controller: jobs continue, trying the next", "controller", target, "error", userMessage(err))
		next++
		// A round over all controllers is one attempt of the cluster.
		if failures++; registered != nil || failures%len(targets) == 0 {
			sleep(ctx, pause.NextBackOff()+spread(registered))
		}
	}
}

// spread is a part, at random, of the time over which the controller wants the nodes to
// come back. What it says is bounded: this node has a lease to renew.
func spread(r *pb.Registered) time.Duration {
	within := min(time.Duration(r.GetReconnectWithinMs())*time.Millisecond, patienceOf(time.Duration(r.GetLeaseMs())*time.Millisecond))
	return rand.N(max(within, 1))
}

package noded

import (
	"path"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/cgroup/traffic"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// This file bounds what guests send and receive, where the owner of the node wants that.
// The bound is on all that runs below cgroup_parent, and the owner's jobs are excepted: so
// a guest never runs without it, and a job of the owner for a second at most with it. It
// stays in force while the daemon is away.

// boundEvery is how often it is looked whose jobs run.
const boundEvery = time.Second

// guestTraffic is the means to bound it.
type guestTraffic struct {
	limit  *traffic.Limit // nil = there is none
	whyNot string
	parent string // the directory below which jobs have theirs

	// Of the last time, so that nothing is done or told again and again.
	mu     sync.Mutex
	rate   uint64
	known  bool // what is in force is what rate says
	failed string
}

// findGuestTraffic looks whether this machine can bound the traffic of jobs.
func findGuestTraffic(cgroupParent string) *guestTraffic {
	parent, err := cgroup.New(cgroupParent, cgroup.Limits{}).UnifiedDirectory()
	if err != nil {
		return &guestTraffic{whyNot: err.Error()}
	}
	limit := traffic.On(parent)
	if err := limit.Check(); err != nil {
		return &guestTraffic{whyNot: err.Error()}
	}
	return &guestTraffic{limit: limit, parent: parent}
}

// boundGuests brings the bound to what the owner wants.
func (a *agent) boundGuests() {
	t := a.machine.traffic
	if t == nil || t.limit == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a.mu.Lock()
	rate := a.owned.owner.GuestNetwork()
	var owners []string
	if rate != 0 {
		for _, decided := range a.registry.All() {
			if !decided.Life.Over() && !a.owned.owner.Guest(decided.Order) {
				owners = append(owners, path.Join(t.parent, bundle.ID(decided.Key.Message())))
			}
		}
	}
	a.mu.Unlock()
	switch err := t.bound(rate, owners); {
	case err != nil && err.Error() != t.failed:
		t.failed = err.Error()
		a.log.Error("what guests send and receive is not bounded as the owner of the node wants: that is tried again", "error", err)
	case err == nil:
		t.failed = ""
	}
}

// bound puts a bound in force, or lifts it. The caller holds t.mu.
func (t *guestTraffic) bound(rate uint64, owners []string) error {
	if rate == 0 {
		if t.known && t.rate == 0 {
			return nil
		}
		if err := t.limit.Clear(); err != nil {
			return err
		}
	} else {
		if err := t.limit.Set(rate); err != nil {
			return err
		}
		if err := t.limit.Except(owners); err != nil {
			return err
		}
	}
	t.rate, t.known = rate, true
	return nil
}

package noded

import (
	"path"
	"sync"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/cgroup/traffic"
)

// This file bounds what guests send and receive, where the owner of the node wants that.
// The bound is on all that runs below cgroup_parent, and the owner's jobs are excepted: so
// a guest never runs without it, and a job of the owner for a second at most with it. It
// stays in force while the daemon is away.

// guestTraffic is the means to bound it.
type guestTraffic struct {
	limit  *traffic.Limit // nil = there is none
	whyNot string
	parent string // the directory below which jobs have theirs

	// Of the last time, so that nothing is done or told again and again.
	mu    sync.Mutex
	rate  uint64
	known bool // what is in force is what rate says
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

// keep brings the bound to what is wanted. owners are the names of the groups of the
// owner's jobs.
func (t *guestTraffic) keep(rate uint64, owners []string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var directories []string
	for _, name := range owners {
		directories = append(directories, path.Join(t.parent, name))
	}
	return t.bound(rate, directories)
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

package noded

import (
	"errors"
	"slices"
	"sync"

	"github.com/gleaner-hpc/gleaner/cgroup"
)

// This file bounds what guests read from disks and write to them, where the owner of the
// node wants that. They have the bound together: each gets an even share, which changes as
// guests come and go. It stays in force while the daemon is away.

// guestIO is the means to bound it.
type guestIO struct {
	whyNot string // "" = it can be done

	mu    sync.Mutex
	disks []cgroup.Disk
	set   map[string]uint64 // by the path of an allocation's group: what is in force there
}

// findGuestIO looks whether this machine can bound what jobs read and write.
func findGuestIO(cgroupParent string) *guestIO {
	g := &guestIO{set: map[string]uint64{}}
	if err := cgroup.New(cgroupParent, cgroup.Limits{}).CheckIO(); err != nil {
		g.whyNot = err.Error()
	}
	return g
}

// leastShare is the least that a guest gets of the bound: with less it could not even be
// ended.
const leastShare = 1 << 12

// keep brings the bounds of allocations to what is wanted: rate for all guests together, 0
// = what they like. guests and others are the paths of their groups.
func (g *guestIO) keep(rate uint64, guests, others []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.lookAgain(); err != nil {
		return err
	}
	share := uint64(0)
	if rate != 0 && len(guests) > 0 {
		share = max(rate/uint64(len(guests)), leastShare)
	}
	now := map[string]uint64{}
	var failed []error
	bound := func(path string, bytes uint64) {
		if was, known := g.set[path]; known && was == bytes {
			now[path] = bytes
			return
		}
		switch err := cgroup.New(path, cgroup.Limits{}).SetIO(g.disks, bytes); {
		case err == nil:
			now[path] = bytes
		case !errors.Is(err, cgroup.ErrNotFound): // else it is not there yet, or not any more
			failed = append(failed, err)
		}
	}
	for _, path := range guests {
		bound(path, share)
	}
	for _, path := range others {
		bound(path, 0)
	}
	g.set = now
	return errors.Join(failed...)
}

// lookAgain finds disks that came.
func (g *guestIO) lookAgain() error {
	disks, err := cgroup.Disks()
	if err != nil {
		return err
	}
	if !slices.Equal(disks, g.disks) {
		g.disks, g.set = disks, map[string]uint64{}
	}
	return nil
}

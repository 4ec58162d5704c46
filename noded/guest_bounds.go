package noded

import (
	"path"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// This file keeps the bounds that the owner of the node sets for guests while they run: on
// traffic, on what they read from and write to disks, and on what their GPUs draw.

// boundEvery is how often it is looked whose jobs run.
const boundEvery = time.Second

// guestBounds are those wanted, and who they are for.
type guestBounds struct {
	network, io    uint64
	guests, owners []string                  // the names of the groups of allocations that are not over
	watts          map[string]gpu.Milliwatts // by GPU that only guests have now
}

// boundGuests brings all bounds to what the owner wants. What fails is told once, and tried
// again.
func (a *agent) boundGuests() {
	a.bounding.Lock()
	defer a.bounding.Unlock()
	b := a.wantedBounds()
	if t := a.machine.traffic; t != nil && t.limit != nil {
		a.tellUnbound("what guests send and receive", t.keep(b.network, b.owners))
	}
	if g := a.machine.io; g != nil && g.whyNot == "" {
		parent := a.machine.config.CgroupParent
		a.tellUnbound("what guests read and write", g.keep(b.io, below(parent, b.guests), below(parent, b.owners)))
	}
	if g := a.machine.power; g != nil {
		a.tellUnbound("what guests' GPUs draw", g.keep(b.watts))
	}
}

func below(parent string, names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = path.Join(parent, name)
	}
	return paths
}

// wantedBounds are those that the owner wants now.
func (a *agent) wantedBounds() guestBounds {
	a.mu.Lock()
	defer a.mu.Unlock()
	rules := a.owned.owner.Rules()
	b := guestBounds{network: rules.GetGuestNetworkBytes(), io: rules.GetGuestIoBytes(), watts: map[string]gpu.Milliwatts{}}
	owns := map[string]bool{}
	for _, decided := range a.registry.All() {
		if decided.Life.Over() {
			continue
		}
		guest := a.owned.owner.Guest(decided.Order)
		if name := bundle.ID(decided.Key.Message()); guest {
			b.guests = append(b.guests, name)
		} else {
			b.owners = append(b.owners, name)
		}
		if decided.Free() || rules.GetGuestPowerWatts() == 0 {
			continue
		}
		for _, on := range decided.Order.GetAllocation() {
			if on.GetNode() != decided.Order.GetNode() {
				continue
			}
			for _, device := range on.GetDevices() {
				id := wholeDevice(device.GetDeviceId(), device.GetParentId())
				owns[id] = owns[id] || !guest
				b.watts[id] = gpu.Milliwatts(rules.GetGuestPowerWatts()) * 1000
			}
		}
	}
	for id, is := range owns {
		if is {
			delete(b.watts, id) // shared with the owner
		}
	}
	return b
}

// wholeDevice is the GPU that a device is, or is a part of.
func wholeDevice(id, parent string) string {
	if parent != "" {
		return parent
	}
	return id
}

// tellUnbound logs that a bound is not in force, once for each cause. The caller holds
// a.bounding.
func (a *agent) tellUnbound(what string, err error) {
	if err == nil {
		delete(a.unbound, what)
		return
	}
	if a.unbound[what] == err.Error() {
		return
	}
	if a.unbound == nil {
		a.unbound = map[string]string{}
	}
	a.unbound[what] = err.Error()
	a.log.Error(what+" is not bounded as the owner of the node wants: that is tried again", "error", err)
}

package state

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file takes back single GPUs, and leaves the rest of their nodes to guests.

// MaxReclaimGPUs bounds how many one command takes back.
const MaxReclaimGPUs = 1024

// parkLostMS is about how long it takes to park a guest and to bring it back: what it
// loses, for each of its GPUs.
const parkLostMS = 10_000

// keeps reports whether a reclaim keeps something of an allocation from a guest: all, or
// one of its devices.
func (r *Reclaim) keeps(alloc *Alloc) bool {
	if len(r.Devices) == 0 {
		return true
	}
	return alloc != nil && slices.ContainsFunc(alloc.Devices, func(held HeldDevice) bool { return r.keepsDevice(held.ID) })
}

// keepsDevice reports whether a reclaim keeps a device from guests.
func (r *Reclaim) keepsDevice(id string) bool {
	if r == nil {
		return false
	}
	_, named := slices.BinarySearch(r.Devices, id)
	return named || len(r.Devices) == 0
}

// keepsWhole reports whether guests get nothing of a node.
func (n *Node) keepsWhole() bool { return n.Reclaim != nil && len(n.Reclaim.Devices) == 0 }

// keepsSome reports whether guests get nothing of some of its devices only.
func (n *Node) keepsSome() bool { return n.Reclaim != nil && len(n.Reclaim.Devices) > 0 }

// maxReclaimedDevices bounds those of one reclaim: some may have been replaced.
const maxReclaimedDevices = 4 * bounds.MaxDevicesPerNode

// bothDevices are the devices that two holds take back together; none = all.
func bothDevices(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	if both := union(a, b); len(both) <= maxReclaimedDevices {
		return both
	}
	return nil
}

// renewed reports whether a node's reclaim, of devices, is another one with a promise of
// its own once more is taken there: the deadline of the former is over, or nobody is left
// whom it is for.
func (t *tables) renewed(node *Node, taken []string, nowMS int64) bool {
	old := node.Reclaim
	more := len(taken) == 0 || len(union(taken, old.Devices)) > len(old.Devices)
	return len(old.Devices) > 0 && more && (old.Free() || old.DeadlineMS <= nowMS)
}

// mostGuestLost bounds what one guest counts for: the sum of any number of them is a
// number still.
const mostGuestLost = 1 << 42

// spareGPU is a GPU that can be taken back.
type spareGPU struct{ node, id string }

// gpuGuest is a guest with the GPUs that come free if it leaves, and what that costs.
type gpuGuest struct {
	gpus []spareGPU
	cost gpuCost
}

// gpuCost is what guests lose, in GPU-milliseconds, and how many they are.
type gpuCost struct {
	lost   int64
	guests int
}

func (a gpuCost) compare(b gpuCost) int {
	return cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.guests, b.guests))
}

// taken is what a command takes of some nodes: all of them, or on some of them the GPUs,
// by node and ascending: idle ones first, and then those whose guests lose least. What the
// owner's jobs have, and what is reclaimed already, is the owner's and is not taken.
func (t *tables) taken(c *ReclaimNodes, names []string, nowMS int64) ([]string, map[string][]string, *Refusal) {
	if c.GPUs == 0 {
		return names, nil, nil
	}
	idle, guests := t.spareGPUs(c, names, nowMS)
	have := len(idle)
	for i := range guests {
		have += len(guests[i].gpus)
	}
	if have < int(c.GPUs) {
		model := ""
		if c.Model != "" {
			model = " of model " + bounds.Clip(c.Model, bounds.MaxNameBytes)
		}
		return nil, nil, refuse(WrongState, "%d GPUs%s of %s can be taken back, and %d are asked for: ask for fewer, or name more nodes. What your own jobs have and what is reclaimed already does not count, nor does a GPU that is broken or whose node does not respond", have, model, spec.FormatHostList(names), c.GPUs)
	}
	taken := idle[:min(len(idle), int(c.GPUs))]
	if missing := int(c.GPUs) - len(taken); missing > 0 {
		taken = append(slices.Clip(taken), leastLost(guests, missing)...)
	}
	by := map[string][]string{}
	for _, gpu := range taken {
		by[gpu.node] = append(by[gpu.node], gpu.id)
	}
	for _, ids := range by {
		slices.Sort(ids)
	}
	return slices.Sorted(maps.Keys(by)), by, nil
}

// spareGPUs are the GPUs of some nodes that a command may take: those that are idle, on
// the nodes with the most of them first, and those that guests have.
func (t *tables) spareGPUs(c *ReclaimNodes, names []string, nowMS int64) (idle []spareGPU, guests []gpuGuest) {
	var idleOn [][]spareGPU
	held, over := map[uint32]*gpuGuest{}, t.overBorrowers() // held by job
	for _, name := range names {
		node, _ := t.nodes.Get(name)
		if node.Inventory == nil || node.Down || node.NotResponding || node.keepsWhole() {
			continue
		}
		var here []spareGPU
		for i := range node.Inventory.Devices {
			device := &node.Inventory.Devices[i]
			if device.Parent != "" || device.Health != pb.DeviceHealth_DEVICE_HEALTH_OK || c.Model != "" && device.Model != c.Model || node.Reclaim.keepsDevice(device.ID) {
				continue
			}
			gpu := spareGPU{name, device.ID}
			if node.use.sharesOf(device.ID) == 0 && !node.use.overlaps(node, device) {
				here = append(here, gpu)
			} else if job := t.guestWith(gpu); job != nil {
				if held[job.ID] == nil {
					held[job.ID] = &gpuGuest{cost: t.gpuCost(job, c.Kill, nowMS)}
					if t.overBorrower(job, over) != "" {
						held[job.ID].cost.lost = sched.CountsOverBorrowed(held[job.ID].cost.lost)
					}
				}
				held[job.ID].gpus = append(held[job.ID].gpus, gpu)
			}
		}
		idleOn = append(idleOn, here)
	}
	slices.SortStableFunc(idleOn, func(a, b []spareGPU) int { return len(b) - len(a) })
	for _, id := range slices.Sorted(maps.Keys(held)) {
		guests = append(guests, *held[id])
	}
	return slices.Concat(idleOn...), guests
}

// guestWith is the guest that has a GPU, as its node has it; nil if nobody has it, or
// only jobs of the owner.
func (t *tables) guestWith(gpu spareGPU) *Job {
	node, _ := t.nodes.Get(gpu.node)
	for _, id := range node.use.jobs {
		job := t.jobOn(id, gpu.node)
		alloc := job.Alloc(gpu.node)
		if alloc.Parked || t.OwnersJob(job, gpu.node) {
			continue
		}
		if slices.ContainsFunc(alloc.Devices, func(held HeldDevice) bool { return held.ID == gpu.id }) {
			return job
		}
	}
	return nil
}

// gpuCost is what a guest loses if it has to leave, as the scheduler counts it: one that
// is parked some seconds, one that ends its work, and that twice if it may not continue.
func (t *tables) gpuCost(job *Job, kill bool, nowMS int64) gpuCost {
	fate, _ := t.fate(job, kill)
	cost := gpuCost{guests: 1}
	switch fate {
	case pb.GuestFate_GUEST_FATE_ENDING:
		return gpuCost{} // it leaves anyway
	case pb.GuestFate_GUEST_FATE_PARK:
		cost.lost = times(parkLostMS, job.Run.units(), 1)
	case pb.GuestFate_GUEST_FATE_REQUEUE:
		cost.lost = job.lostGPUMS(nowMS)
	default:
		cost.lost = times(job.lostGPUMS(nowMS), 2, 1)
	}
	cost.lost = min(cost.lost, mostGuestLost)
	return cost
}

// leastLost are as many GPUs as are missing, of the guests that together lose least; of
// several such sets, of the fewest guests. The guests have at least as many.
func leastLost(guests []gpuGuest, missing int) []spareGPU {
	// best is the least cost of some of the guests so far that have at least so many GPUs,
	// and used says whether the guest that was added last is one of them.
	best, known := make([]gpuCost, missing+1), make([]bool, missing+1)
	used := make([][]bool, len(guests))
	known[0] = true
	for i := range guests {
		used[i] = make([]bool, missing+1)
		for need := missing; need > 0; need-- {
			rest := max(need-len(guests[i].gpus), 0)
			if !known[rest] {
				continue
			}
			with := gpuCost{best[rest].lost + guests[i].cost.lost, best[rest].guests + guests[i].cost.guests}
			if !known[need] || with.compare(best[need]) < 0 {
				best[need], known[need], used[i][need] = with, true, true
			}
		}
	}
	var taken []spareGPU
	for i, need := len(guests)-1, missing; need > 0; i-- {
		if used[i][need] {
			take := min(need, len(guests[i].gpus))
			taken = append(taken, guests[i].gpus[:take]...)
			need -= take
		}
	}
	return taken
}

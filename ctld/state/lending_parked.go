package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// This file bounds the host memory that parked guests keep of a node.

// parkedRoom is how much more host memory of a node parked guests may keep.
func (t *tables) parkedRoom(node *Node) uint64 {
	left := node.Lending.Terms().ParkedMemoryBytes
	if left == bounds.NoLimit {
		return left
	}
	for _, id := range node.use.jobs {
		job := t.jobOn(id, node.Name)
		if alloc := job.Alloc(node.Name); t.staysParked(job, alloc, node) {
			left -= min(alloc.MemoryBytes, left)
		}
	}
	return left
}

// parksBeyond reports whether a run needs more host memory, on a node where it is a guest,
// than parked guests may keep there.
func (t *tables) parksBeyond(job *Job) bool {
	return t.lending.Len() > 0 && slices.ContainsFunc(job.Run.Allocs, func(alloc Alloc) bool {
		node, known := t.nodes.Get(alloc.Node)
		return known && node.Lending != nil && !alloc.Released && !t.OwnersJob(job, alloc.Node) && alloc.MemoryBytes > t.parkedRoom(node)
	})
}

// staysParked reports whether a guest is parked on a node, or was told to be.
func (t *tables) staysParked(job *Job, alloc *Alloc, node *Node) bool {
	return job.Phase != Ending && !t.isSuccessor(job) && !t.OwnersJob(job, node.Name) && (alloc.Parked || alloc.ParkByMS != 0)
}

// beyondParked are the guests of a node for whose memory the terms leave no room when they
// are parked: they end instead. Those are parked that would lose most.
func (t *tables) beyondParked(node *Node, reclaim *Reclaim, nowMS int64) map[uint32]bool {
	limit := t.parkedRoom(node)
	if limit == bounds.NoLimit {
		return nil
	}
	type guest struct {
		id     uint32
		memory uint64
		lost   int64
	}
	var guests []guest
	for _, id := range node.use.jobs {
		job := t.jobOn(id, node.Name)
		alloc := job.Alloc(node.Name)
		switch {
		case job.Phase == Ending || t.isSuccessor(job) || t.OwnersJob(job, node.Name):
		case t.staysParked(job, alloc, node), !reclaim.keeps(alloc): // it stays as it is, or runs on
		default:
			guests = append(guests, guest{id, alloc.MemoryBytes, job.lostGPUMS(nowMS)})
		}
	}
	slices.SortFunc(guests, func(a, b guest) int { return cmp.Or(cmp.Compare(b.lost, a.lost), cmp.Compare(a.id, b.id)) })
	beyond := map[uint32]bool{}
	for _, guest := range guests {
		if guest.memory > limit {
			beyond[guest.id] = true
			continue
		}
		limit -= guest.memory
	}
	return beyond
}

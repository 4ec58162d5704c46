package state

import "fmt"

// This file has guests make room for the waiting jobs of the owner of their node. They
// have the notice that the terms of the node give, and what is not parked by then is
// killed.

// isGuestOf reports whether a run has something on a node that is its owner's for one job
// and not for the run's.
func (t *tables) isGuestOf(guest, owners *Job, alloc *Alloc) bool {
	return !alloc.Released && t.OwnersJob(owners, alloc.Node) && !t.OwnersJob(guest, alloc.Node)
}

// guestNode is a node on which a job, in any of its runs, is a guest and another one the
// owner's; "" when there is none.
func (t *tables) guestNode(guest, owners *Job) string {
	for i := range guest.Run.Allocs {
		if alloc := &guest.Run.Allocs[i]; t.isGuestOf(guest, owners, alloc) {
			return alloc.Node
		}
	}
	for i := range guest.Run.Beside {
		for a := range guest.Run.Beside[i].Run.Allocs {
			if alloc := &guest.Run.Beside[i].Run.Allocs[a]; t.isGuestOf(guest, owners, alloc) {
				return alloc.Node
			}
		}
	}
	return ""
}

// checkGuest says why a job need not make room for one of the owner's.
func (t *tables) checkGuest(waiting, victim *Job) error {
	if t.guestNode(victim, waiting) == "" {
		return fmt.Errorf("job %d is no guest on a node of the owner that job %d belongs to", victim.ID, waiting.ID)
	}
	if from := t.guestEligibleMS(victim); from > t.timeMS {
		return fmt.Errorf("job %d has to run undisturbed for another %d s", victim.ID, (from-t.timeMS+999)/1000)
	}
	return nil
}

// guestEligibleMS is from when on a run may be disturbed by jobs of its node's owner.
func (t *tables) guestEligibleMS(job *Job) int64 {
	return job.Run.turnMS() + int64(t.policy.Preempt.GuestExemptTimeS)*1000
}

// parkFor has a guest frozen on all its nodes, and parked on those of the owner whose job
// needs them. A move is called off and a save given up: both would keep it from being
// frozen. A guest that was only about to move there stays where it is.
func (s *State) parkFor(victim, waiting *Job, order *PreemptOrder) {
	why := s.preemptorWords(waiting, victim, order)
	reason := "it had to make room for " + why
	next := s.withoutSave(s.calledOff(victim, reason), reason)
	there := false
	for i := range next.Run.Allocs {
		there = there || s.isGuestOf(next, waiting, &next.Run.Allocs[i])
	}
	if !there {
		s.putJob(next)
		return
	}
	next = s.suspended(next, &Suspension{For: order.For, Owner: true, Detail: "parked for " + why})
	next.notePreemption(order.LostGPUMS)
	next, _ = next.withAlloc("")
	next.Run.Suspension.Billing = 0
	for i := range next.Run.Allocs {
		if alloc := &next.Run.Allocs[i]; s.isGuestOf(next, waiting, alloc) {
			node, _ := s.nodes.Get(alloc.Node)
			alloc.ParkByMS = s.timeMS + int64(node.Lending.Terms().NoticeMS)
		}
	}
	s.putJob(next)
	for i := range next.Run.Allocs {
		if alloc := &next.Run.Allocs[i]; s.isGuestOf(next, waiting, alloc) {
			old, _ := s.nodes.Get(alloc.Node)
			node := *old
			s.noteTook(&node)
			s.putNode(&node)
		}
	}
}

// endsFor says why a guest ends for a job of the owner and is not parked; "" = it is
// parked.
func (t *tables) endsFor(victim, waiting *Job, order *PreemptOrder) string {
	for i := range victim.Run.Allocs {
		alloc := &victim.Run.Allocs[i]
		node, known := t.nodes.Get(alloc.Node)
		switch {
		case !known || !t.isGuestOf(victim, waiting, alloc):
		case !order.Park && victim.Configuring():
			return "it was being started"
		case alloc.ParkByMS == 0 && alloc.MemoryBytes > t.parkedRoom(node):
			return "the owner leaves parked guests less memory than it needs"
		}
	}
	return ""
}

// noticeMS is how long a guest that ends for a job of the owner has: the shortest of the
// nodes that it leaves.
func (t *tables) noticeMS(victim, waiting *Job) int64 {
	notice := uint32(MaxReclaimMS)
	for i := range victim.Run.Allocs {
		alloc := &victim.Run.Allocs[i]
		if node, known := t.nodes.Get(alloc.Node); known && t.isGuestOf(victim, waiting, alloc) {
			notice = min(notice, node.Lending.Terms().NoticeMS)
		}
	}
	return int64(notice)
}

// ownerWords name the owner's job that a guest makes room for.
func (s *State) ownerWords(waiting, victim *Job) string {
	node := s.guestNode(victim, waiting)
	association, _ := s.Association(waiting.Association)
	owner, below, over := s.policy.OwnerOf(node), "", ""
	if association.Account != owner {
		below = " below " + owner
	}
	if account := s.overBorrower(victim, s.overBorrowers()); account != "" {
		over = fmt.Sprintf(" (account %s borrows more than it may, so its guests go first)", account)
	}
	return fmt.Sprintf("job %d of account %s%s, which owns node %s%s", waiting.ID, association.Account, below, node, over)
}

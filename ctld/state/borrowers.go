package state

import "github.com/gleaner-hpc/gleaner/ctld/state/policy"

// This file judges who borrows more than the policy's [[borrower]] allows: an account's
// guests are judged together, whatever each of them would lose.

// overBorrowers are the accounts of [[borrower]] whose jobs have more than they may.
func (t *tables) overBorrowers() map[string]bool {
	if len(t.policy.Borrowers) == 0 {
		return nil
	}
	has := make([]policy.Borrowed, len(t.policy.Borrowers))
	t.live.Scan(func(_ uint32, job *Job) bool {
		association, known := t.Association(job.Association)
		if !known || !job.HoldsNodes() {
			return true
		}
		b := t.borrows(job)
		for i := range has {
			if b != (policy.Borrowed{}) && t.IsBelow(association.Account, t.policy.Borrowers[i].Account) {
				has[i].CPUs, has[i].GPUs = has[i].CPUs+b.CPUs, has[i].GPUs+b.GPUs
			}
		}
		return true
	})
	over := map[string]bool{}
	for i, b := range t.policy.Borrowers {
		if bounds, err := policy.ParseBorrowed(b.GrpTRES); err == nil && (has[i].CPUs > bounds.CPUs || has[i].GPUs > bounds.GPUs) {
			over[b.Account] = true
		}
	}
	return over
}

// borrows is what a job has on nodes of others. What is parked is not borrowed.
func (t *tables) borrows(job *Job) (b policy.Borrowed) {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		if alloc.Released || alloc.Parked || t.policy.OwnerOf(alloc.Node) == "" || t.OwnersJob(job, alloc.Node) {
			continue
		}
		b.CPUs, b.GPUs = b.CPUs+uint64(len(alloc.CPUs)), b.GPUs+uint64(len(alloc.Devices))
	}
	return b
}

// overBorrower is the account of a job, or one above it, that borrows more than it may;
// "" = none does.
func (t *tables) overBorrower(job *Job, over map[string]bool) string {
	association, known := t.Association(job.Association)
	if !known || len(over) == 0 {
		return ""
	}
	for i := range t.policy.Borrowers {
		if name := t.policy.Borrowers[i].Account; over[name] && t.IsBelow(association.Account, name) {
			return name
		}
	}
	return ""
}

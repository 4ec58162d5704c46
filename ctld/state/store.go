package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidwall/btree"
)

// putJob stores a record in place of the one with the same number, and updates
// every index. All changes that commands make to jobs go through here and
// dropJob.
func (s *State) putJob(job *Job) {
	old, replaced := s.Job(job.ID)
	var from Phase
	if replaced {
		from = old.Phase
	}
	if from != job.Phase && !slices.Contains(legalNext[from], job.Phase) {
		panic(fmt.Sprintf("ctld/state: job %d may not go from phase %d to %d", job.ID, from, job.Phase))
	}
	over := from != Finished && job.Phase == Finished
	if over {
		job = job.withoutStages(s.timeMS)
		s.noteHistory(job)
		job = job.withoutSteps()
	}
	s.replaceJob(old, job)
	s.noteMove(old, job)
	s.noteMail(old, job)
}

// replaceJob stores a record; old is the one before it, nil for a new one. The
// two refer to the same blobs.
func (s *State) replaceJob(old, job *Job) {
	switch {
	case old == nil:
		s.referContent(job)
	case old.Spec != job.Spec:
		s.shared.specs[job.Spec.digest].references++
		s.releaseSpec(old.Spec)
	}
	switch {
	case old == nil:
	case old.Phase == Finished && job.Phase != Finished:
		s.past.Delete(job.ID)
	case old.Phase != Finished && job.Phase == Finished:
		s.live.Delete(job.ID)
	}
	if old != nil {
		s.unindex(old)
	}
	s.rebook(old, job)
	s.reindex(job)
	s.changes.jobs = append(s.changes.jobs, job.ID)
}

// dropJob forgets a finished job.
func (s *State) dropJob(job *Job) {
	s.unindex(job)
	s.past.Delete(job.ID)
	s.rememberFailure(job)
	s.releaseContent(job)
	s.changes.purged = append(s.changes.purged, job.ID)
}

// reindex stores a record and its entries in the indices.
func (s *State) reindex(job *Job) {
	s.counts.add(job)
	user, _ := s.users.Get(job.Owner().UID)
	user.Bytes += uint64(len(job.own))
	if job.Phase != Finished {
		user.Submitted += job.TaskCount()
		s.submitted += uint64(job.TaskCount())
	}
	switch job.Phase {
	case Waiting:
		s.live.Set(job.ID, job)
		user.Waiting++
	case Running, Ending:
		s.live.Set(job.ID, job)
		s.active++
		user.Active++
		if job.Array != 0 {
			running, _ := s.arrayRunning.Get(job.Array)
			s.arrayRunning.Set(job.Array, running+1)
		}
	case Finished:
		s.past.Set(job.ID, job)
		s.finished.Set(finishedKey(job), struct{}{})
		user.Finished++
	}
	s.users.Set(job.Owner().UID, user)
	s.indexWaits(job, func(index uint64Set, key uint64) { index.Set(key, struct{}{}) })
	indexImages(job, func(id uint32) { s.imaged.Set(id, struct{}{}) })
	indexStaged(job, func(id uint32) { s.staged.Set(id, struct{}{}) })
	if job.Array == 0 {
		return
	}
	s.membersIn(job.Phase).Set(pair(job.Array, job.ID), struct{}{})
	if job.HasTask {
		s.byTask.Set(pair(job.Array, job.Task), job.ID)
	} else {
		s.groups.Set(pair(job.Array, job.ID), struct{}{})
	}
}

// unindex removes a record's entries from the indices, and leaves the record.
func (s *State) unindex(job *Job) {
	s.counts.remove(job)
	user, _ := s.users.Get(job.Owner().UID)
	user.Bytes -= uint64(len(job.own))
	if job.Phase != Finished {
		user.Submitted -= job.TaskCount()
		s.submitted -= uint64(job.TaskCount())
	}
	switch job.Phase {
	case Waiting:
		user.Waiting--
	case Running, Ending:
		s.active--
		user.Active--
		if job.Array != 0 {
			countDown(s.arrayRunning, job.Array)
		}
	case Finished:
		s.finished.Delete(finishedKey(job))
		user.Finished--
	}
	s.putUserCounts(job.Owner().UID, user)
	s.indexWaits(job, func(index uint64Set, key uint64) { index.Delete(key) })
	indexImages(job, func(id uint32) { s.imaged.Delete(id) })
	indexStaged(job, func(id uint32) { s.staged.Delete(id) })
	if job.Array == 0 {
		return
	}
	s.membersIn(job.Phase).Delete(pair(job.Array, job.ID))
	if job.HasTask {
		s.byTask.Delete(pair(job.Array, job.Task))
	} else {
		s.groups.Delete(pair(job.Array, job.ID))
	}
}

func (s *State) putUserCounts(uid uint32, counts UserCounts) {
	if counts == (UserCounts{}) {
		s.users.Delete(uid)
		return
	}
	s.users.Set(uid, counts)
}

// membersIn is the index of arrays' members in a phase.
func (s *State) membersIn(phase Phase) *btree.Map[uint64, struct{}] {
	if phase == Finished {
		return s.pastMembers
	}
	return s.members
}

func countDown(table *btree.Map[uint32, uint32], key uint32) {
	count, _ := table.Get(key)
	if count > 1 {
		table.Set(key, count-1)
		return
	}
	table.Delete(key)
}

// finishedKey orders finished jobs by the second in which they were over.
func finishedKey(job *Job) uint64 {
	return pair(uint32(cmp.Or(job.End.OverMS, job.End.EndMS)/1000), job.ID)
}

// putNode stores a node in place of the one with the same name. What its jobs
// hold is carried over.
func (s *State) putNode(node *Node) {
	if old, known := s.nodes.Get(node.Name); known {
		node.use = old.use
		s.noteOutage(old, node)
		if old.holdsStarts() {
			s.awaited--
		}
	} else {
		node.use = &nodeUse{}
		s.beginOutage(node)
	}
	if node.holdsStarts() {
		s.awaited++
	}
	if node.Reclaim != nil {
		s.reclaimed.Set(node.Name, struct{}{})
	} else {
		s.reclaimed.Delete(node.Name)
	}
	if node.Lending != nil {
		s.lending.Set(node.Name, struct{}{})
	} else {
		s.lending.Delete(node.Name)
	}
	s.noteCrossed(node, s.policy.GangRange.Prefixes())
	if node.Habit != nil {
		s.habits.Set(node.Name, struct{}{})
	} else {
		s.habits.Delete(node.Name)
	}
	s.nodes.Set(node.Name, node)
	s.changes.nodes = append(s.changes.nodes, node.Name)
}

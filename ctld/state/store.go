package state

import (
	"fmt"
	"slices"

	"github.com/tidwall/btree"
)

// putJob stores a record in the place of the one with the same number, and
// keeps every index in step. All changes
// to jobs by commands go through here and dropJob.
func (s *State) putJob(job *Job) {
	old, replaced := s.jobs.Get(job.ID)
	var from Phase
	if replaced {
		from = old.Phase
	}
	if from != job.Phase && !slices.Contains(legalNext[from], job.Phase) {
		panic(fmt.Sprintf("ctld/state: job %d may not go from phase %d to %d", job.ID, from, job.Phase))
	}
	s.replaceJob(old, job)
}

// replaceJob stores a record; old is the one before it, nil for a new one.
func (s *State) replaceJob(old, job *Job) {
	s.referRequest(job.RequestDigest)
	if old != nil {
		s.unindex(old)
		s.releaseRequest(old.RequestDigest)
	}
	s.rebook(old, job)
	s.jobs.Set(job.ID, job)
	s.reindex(job)
	s.changes.jobs = append(s.changes.jobs, job.ID)
}

// dropJob forgets a finished job.
func (s *State) dropJob(job *Job) {
	s.unindex(job)
	s.jobs.Delete(job.ID)
	s.releaseRequest(job.RequestDigest)
	s.changes.purged = append(s.changes.purged, job.ID)
}

func (s *State) reindex(job *Job) {
	user, _ := s.users.Get(job.Owner().UID)
	switch job.Phase {
	case Waiting:
		s.waiting.Set(job.ID, job)
		s.countWaiting(job.Request.shape, 1)
		user.Waiting++
	case Running, Ending:
		s.active.Set(job.ID, job)
		user.Active++
		if job.Array != 0 {
			running, _ := s.arrayRunning.Get(job.Array)
			s.arrayRunning.Set(job.Array, running+1)
		}
	case Finished:
		s.finished.Set(finishedKey(job), struct{}{})
		user.Finished++
	}
	s.users.Set(job.Owner().UID, user)
	if job.Array == 0 {
		return
	}
	s.members.Set(pair(job.Array, job.ID), struct{}{})
	if job.HasTask {
		s.byTask.Set(pair(job.Array, job.Task), job.ID)
	} else {
		s.groups.Set(pair(job.Array, job.ID), struct{}{})
	}
}

func (s *State) unindex(job *Job) {
	user, _ := s.users.Get(job.Owner().UID)
	switch job.Phase {
	case Waiting:
		s.waiting.Delete(job.ID)
		s.countWaiting(job.Request.shape, -1)
		user.Waiting--
	case Running, Ending:
		s.active.Delete(job.ID)
		user.Active--
		if job.Array != 0 {
			countDown(s.arrayRunning, job.Array)
		}
	case Finished:
		s.finished.Delete(finishedKey(job))
		user.Finished--
	}
	if user == (UserCounts{}) {
		s.users.Delete(job.Owner().UID)
	} else {
		s.users.Set(job.Owner().UID, user)
	}
	if job.Array == 0 {
		return
	}
	s.members.Delete(pair(job.Array, job.ID))
	if job.HasTask {
		s.byTask.Delete(pair(job.Array, job.Task))
	} else {
		s.groups.Delete(pair(job.Array, job.ID))
	}
}

func countDown(table *btree.Map[uint32, uint32], key uint32) {
	count, _ := table.Get(key)
	if count > 1 {
		table.Set(key, count-1)
		return
	}
	table.Delete(key)
}

// finishedKey orders finished jobs by the second they ended in.
func finishedKey(job *Job) uint64 {
	return pair(uint32(job.End.EndMS/1000), job.ID)
}

// putNode stores a node in the place of the one with the same name. What its
// jobs hold is carried over.
func (s *State) putNode(node *Node) {
	if old, known := s.nodes.Get(node.Name); known {
		node.use = old.use
	} else {
		node.use = &nodeUse{}
	}
	s.nodes.Set(node.Name, node)
	s.changes.nodes = append(s.changes.nodes, node.Name)
}

package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// A guest that has been parked for a while is packed: its image is made as it stands,
// its run ends once that is durable, and it resumes elsewhere. Until then it stays
// parked, and continues in place if its node is released before. What cannot be saved
// stays parked.

// parkedWhole reports whether every node of a job has stopped it, and parked it where
// it has to, so that nothing of it moves.
func (j *Job) parkedWhole() bool {
	if !j.Suspended() || j.Run.Suspension.Reclaim == 0 {
		return false
	}
	for i := range j.Run.Allocs {
		if alloc := &j.Run.Allocs[i]; !alloc.Frozen || alloc.ParkByMS != 0 && !alloc.Parked {
			return false
		}
	}
	return true
}

// mayPack says why a job is not packed now. maySave has asked the rest.
func (t *tables) mayPack(job *Job) *Refusal {
	switch {
	case !job.parkedWhole():
		return refuse(WrongState, "it is not parked")
	case !t.keptSomewhere(job):
		return refuse(WrongState, "its nodes are released, and it continues there")
	case job.Run.Suspension.Held:
		return refuse(WrongState, "it is suspended by an administrator")
	case job.Saving() != nil:
		return refuse(AlreadyDone, "it is being saved already")
	}
	if silent := t.silentNode(job); silent != "" {
		return refuse(WrongState, "node %s does not respond", silent)
	}
	return t.mayMove(job, nil) // or it would only wait for its own node
}

// MayPack reports whether a job could be packed now, as far as its record tells.
func (t *tables) MayPack(job *Job) bool { return t.maySave(job, SavePack) == nil }

// keptSomewhere reports whether a node of a job is reclaimed from it.
func (t *tables) keptSomewhere(job *Job) bool {
	for i := range job.Run.Allocs {
		if node, known := t.nodes.Get(job.Run.Allocs[i].Node); known && t.keptFrom(job, node) {
			return true
		}
	}
	return false
}

// ParkedSinceMS is since when a job is parked on all its nodes that are reclaimed, in
// log time; 0 = it is not.
func (t *tables) ParkedSinceMS(job *Job) int64 {
	if !job.parkedWhole() {
		return 0
	}
	since := int64(0)
	for i := range job.Run.Allocs {
		node, known := t.nodes.Get(job.Run.Allocs[i].Node)
		if !known || !t.keptFrom(job, node) {
			continue
		}
		if at := node.Reclaim.guest(job.ID, job.Epoch); at >= 0 {
			since = max(since, node.Reclaim.Guests[at].FreedMS)
		}
	}
	return since
}

// ParkedJobs are the jobs that are parked on reclaimed nodes, ascending by number.
func (v *View) ParkedJobs() []*Job {
	var jobs []*Job
	seen := map[uint32]bool{}
	v.reclaimed.Scan(func(name string, _ struct{}) bool {
		for job := range v.JobsOn(name) {
			if !seen[job.ID] && v.ParkedSinceMS(job) != 0 {
				seen[job.ID] = true
				jobs = append(jobs, job)
			}
		}
		return true
	})
	return jobs
}

// packed ends the run of a parked job that has its image. If its nodes were released
// meanwhile it keeps the image, and continues where it is. next saves nothing from now
// on.
func (s *State) packed(next *Job, number uint32) {
	if !next.parkedWhole() || !s.keptSomewhere(next) {
		next.abortSave(number)
		s.putJob(next)
		return
	}
	text := ""
	for i := range next.Run.Allocs {
		if node, _ := s.nodes.Get(next.Run.Allocs[i].Node); s.keptFrom(next, node) {
			text = joinSentences(text, node.reclaimedText())
		}
	}
	next.decided(&End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: true, Frozen: true, Preempted: &Preempted{AtMS: s.timeMS},
		Detail: clip(fmt.Sprintf("%s, and it was parked on node %s: resumes elsewhere from image %d", text, words.FormatHostList(next.Run.nodes()), number), MaxTextBytes),
	})
	s.putJob(next)
	for i := range next.Run.Allocs {
		s.changeGuest(next.ID, next.Epoch, next.Run.Allocs[i].Node, func(guest *ReclaimedGuest) {
			guest.Fate = pb.GuestFate_GUEST_FATE_REQUEUE
			guest.Detail = clip(joinSentences(guest.Detail, fmt.Sprintf("packed: it resumes elsewhere from image %d", number)), MaxTextBytes)
		})
	}
}

package state

import (
	"fmt"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// A guest that has been parked for a while is packed: its image is made as it stands,
// its run ends once that is durable and off its node, and it resumes elsewhere. Until
// then it stays parked, and continues in place if its node is released before. What
// cannot be saved stays parked. Suspension.Packed is an image that is only on the node
// yet: the run is frozen by it, beside being parked, and is never told to run again
// unless it continues in place.
//
// A job on several nodes is saved as one, and so it is parked on all its nodes first: also
// on those that nobody has reclaimed, but only there and then, and without a deadline.

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
	case t.packedHere(job):
		return refuse(AlreadyDone, "it is packed as image %d, which is being copied to another node", job.Run.Suspension.Packed)
	case job.Run.Suspension.Packed != 0:
		return nil // what is left is to end its run
	}
	if silent := t.silentNode(job); silent != "" {
		return refuse(WrongState, "node %s does not respond", silent)
	}
	if !t.networkAllowed(job) {
		return t.keepsNetwork(job)
	}
	need := imageNeed(job)
	return t.resumesWithout(job, &need, t.keptNames(job)) // or it would only wait for these
}

// pack goes on with a job that may be packed: it is parked on the rest of its nodes, or
// saved, or its run ends.
func (s *State) pack(job *Job) *Job {
	switch {
	case job.Run.Suspension.Packed != 0:
		return s.goneAway(job, job.Run.Suspension.Packed)
	case !job.parkedEverywhere():
		return job.parkedRest()
	}
	return s.saving(job, &Saving{Purpose: SavePack})
}

// parkedEverywhere reports whether a job is parked on all its nodes.
func (j *Job) parkedEverywhere() bool {
	return !slices.ContainsFunc(j.Run.Allocs, func(alloc Alloc) bool { return !alloc.Parked })
}

// parkedRest is a job that is to be parked on all its nodes.
func (j *Job) parkedRest() *Job {
	next, _ := j.withSuspension().withAlloc("")
	next.Run.SuspendNumber++
	for i := range next.Run.Allocs {
		if alloc := &next.Run.Allocs[i]; alloc.ParkByMS == 0 {
			alloc.ParkByMS = ParkAtLeisureMS
		}
	}
	return next
}

// ParkAtLeisureMS is the time until when an allocation is parked that nobody waits for:
// it is never killed for being late.
const ParkAtLeisureMS = math.MaxInt64

// packedHere reports whether a job has an image of how it stands that is not off its
// nodes yet.
func (t *tables) packedHere(job *Job) bool {
	image := job.Saved.image(job.Run.Suspension.Packed)
	return image != nil && !t.offNodes(job, image)
}

// MayPack reports whether a job could be packed now, as far as its record tells.
func (t *tables) MayPack(job *Job) bool { return t.maySave(job, SavePack) == nil }

// keptSomewhere reports whether a node of a job is reclaimed from it.
func (t *tables) keptSomewhere(job *Job) bool { return len(t.keptNames(job)) > 0 }

// keptNames are its nodes that are.
func (t *tables) keptNames(job *Job) (names []string) {
	for i := range job.Run.Allocs {
		if node, known := t.nodes.Get(job.Run.Allocs[i].Node); known && t.keptFrom(job, node) {
			names = append(names, node.Name)
		}
	}
	return names
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
	if !s.offNodes(next, next.Saved.image(number)) {
		next = next.withSuspension()
		next.Run.Suspension.Packed, next.Run.Abandoned = number, 0
		s.putJob(next)
		return
	}
	s.packedAway(next, number)
}

// packedAway stores the end of the run of a parked job whose image is off its nodes.
func (s *State) packedAway(job *Job, number uint32) { s.putJob(s.goneAway(job, number)) }

// goneAway is that end.
func (s *State) goneAway(job *Job, number uint32) *Job {
	copied := *job
	next, text := &copied, ""
	for _, name := range s.keptNames(next) {
		node, _ := s.nodes.Get(name)
		text = joinSentences(text, node.reclaimedText())
	}
	next.decided(&End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: true, Frozen: true, Preempted: &Preempted{AtMS: s.timeMS},
		Detail: bounds.Clip(fmt.Sprintf("%s, and it was parked on node %s: resumes elsewhere from image %d", text, words.FormatHostList(next.Run.nodes()), number), bounds.MaxTextBytes),
	})
	for i := range next.Run.Allocs {
		s.changeGuest(next.ID, next.Epoch, next.Run.Allocs[i].Node, func(guest *ReclaimedGuest) {
			guest.Fate = pb.GuestFate_GUEST_FATE_REQUEUE
			guest.Detail = bounds.Clip(joinSentences(guest.Detail, fmt.Sprintf("packed: it resumes elsewhere from image %d", number)), bounds.MaxTextBytes)
		})
	}
	return next
}

package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file decides what becomes of the guests of a reclaimed node.

// guestOf is a guest on a node, with what is to become of it. The job is as the
// node has it.
func (t *tables) guestOf(job *Job, node string, kill, beyond bool, nowMS int64) ReclaimedGuest {
	alloc := job.Alloc(node)
	guest := ReclaimedGuest{
		Job: job.ID, Epoch: job.Epoch, Array: job.Array, HasTask: job.HasTask, Task: job.Task,
		Name: bounds.Clip(job.Name(), bounds.MaxNameBytes), User: job.Owner().User, Account: job.Spec.Account,
		CPUs: uint32(len(alloc.CPUs)), GPUs: uint32(len(alloc.Devices)), MemoryBytes: alloc.MemoryBytes,
	}
	guest.Fate, guest.Detail = t.fate(job, kill || beyond)
	if beyond && !kill {
		guest.Detail = joinSentences("the owner leaves parked guests less memory than it needs", guest.Detail)
	}
	if record, known := t.nodes.Get(node); known {
		guest.BoundMS, guest.Unbounded = record.allocBound(alloc)
	}
	if alloc.Parked {
		guest.FreedMS = max(nowMS, 1)
		if guest.Fate == pb.GuestFate_GUEST_FATE_PARK {
			guest.Detail = "it was parked already"
		}
	}
	return guest
}

// fate is what a reclaim does with a job, as the reclaimed node has it.
func (t *tables) fate(job *Job, kill bool) (pb.GuestFate, string) {
	switch {
	case job.Phase == Ending:
		return pb.GuestFate_GUEST_FATE_ENDING, ""
	case t.isSuccessor(job):
		return pb.GuestFate_GUEST_FATE_ENDING, "it was about to move here, and does not"
	case job.frozenToMove():
		return pb.GuestFate_GUEST_FATE_REQUEUE, fmt.Sprintf("it was moving away, and resumes from image %d", job.Run.Move.Number)
	case !kill && !job.Configuring():
		return pb.GuestFate_GUEST_FATE_PARK, ""
	}
	why := ""
	if job.Configuring() {
		why = "it was being started"
	}
	if !job.mayGoOn() {
		return pb.GuestFate_GUEST_FATE_CANCEL, joinSentences(why, "it was submitted with --no-requeue")
	}
	if images := job.Images(); len(images) > 0 {
		return pb.GuestFate_GUEST_FATE_REQUEUE, joinSentences(why, fmt.Sprintf("it resumes from image %d", images[0].Number))
	}
	return pb.GuestFate_GUEST_FATE_REQUEUE, joinSentences(why, "it starts over")
}

// reclaimed is the end of a run that its node has killed, because it was not
// parked by the deadline: nobody's fault, so it does not count among the failures.
func reclaimed(job *Job, report *AllocReport) End {
	if !job.anyReady() { // nothing of it has run: its node was reclaimed on the spot
		detail := withColon("the owner of the node took it back, and the job was not started", report.Node, report.Detail)
		return End{State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: true, Detail: detail + "; requeued"}
	}
	end := End{State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: job.mayGoOn()}
	end.Detail = withColon("the owner of the node took it back, and the job was killed", report.Node, report.Detail)
	switch {
	case end.Requeue:
		end.Detail += "; requeued" + job.goesOnText()
	default:
		end.Detail += "; not requeued, because it was submitted with --no-requeue"
	}
	return end
}

// noteOver notes that the run of a guest is over on a node, and with it that its hardware
// is free. One that was to be parked was not, or is no longer.
func (s *State) noteOver(job *Job, report *AllocReport) {
	s.changeGuest(report.Job, report.Epoch, report.Node, func(guest *ReclaimedGuest) {
		if guest.FreedMS == 0 {
			guest.FreedMS = max(s.timeMS, 1)
		}
		detail := "its run is over"
		switch reclaimed := report.Cause == pb.EndCause_END_CAUSE_RECLAIMED; {
		case reclaimed && job.mayGoOn():
			guest.Fate, detail = pb.GuestFate_GUEST_FATE_REQUEUE, withColon("it was killed", report.Node, report.Detail)
		case reclaimed:
			guest.Fate, detail = pb.GuestFate_GUEST_FATE_CANCEL, withColon("it was killed", report.Node, report.Detail)
		case guest.Fate == pb.GuestFate_GUEST_FATE_PARK:
			guest.Fate = pb.GuestFate_GUEST_FATE_ENDING
		}
		guest.Detail = bounds.Clip(joinSentences(guest.Detail, detail), bounds.MaxTextBytes)
		guest.measured(report.Freed)
	})
}

// mayGoOn reports whether a job that loses its run waits for another.
func (j *Job) mayGoOn() bool { return j.Spec.Requeue || j.goesOnAfterLoss() }

// tellGuest does with a job what the reclaims of some nodes say. All of them are
// stored.
func (s *State) tellGuest(id uint32, names []string) {
	job, _ := s.Job(id)
	if successor := job.Successor(); successor != nil && job.Moving() != nil {
		if node := s.reclaimedUnder(job.as(successor), names); node != nil {
			s.tryFailed(job, successor, node.Name, "its owner has reclaimed it")
			job, _ = s.Job(id)
		}
	}
	node := s.reclaimedUnder(job, names)
	if node == nil {
		return
	}
	switch fate, _ := s.fate(job, s.killsUnder(job, names) || s.endsUnder(job, names)); fate {
	case pb.GuestFate_GUEST_FATE_ENDING: // its nodes are told how much time is left
	case pb.GuestFate_GUEST_FATE_PARK:
		s.park(job, names)
	default:
		s.endGuest(job, names, fate)
	}
}

// reclaimedUnder is one of some nodes that is reclaimed under a run that holds
// something there as a guest; nil when there is none.
func (s *State) reclaimedUnder(job *Job, names []string) *Node {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, _ := s.nodes.Get(alloc.Node)
		if _, named := slices.BinarySearch(names, alloc.Node); named && !alloc.Released && s.keptFrom(job, node) {
			return node
		}
	}
	return nil
}

// killsUnder reports whether one of the reclaims parks no guests.
func (s *State) killsUnder(job *Job, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		node, _ := s.nodes.Get(name)
		return node.Reclaim.Kill && job.Alloc(name) != nil && s.keptFrom(job, node)
	})
}

// endsUnder reports whether one of the reclaims has decided to end a guest that could be
// parked.
func (s *State) endsUnder(job *Job, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		node, _ := s.nodes.Get(name)
		if job.Alloc(name) == nil || !s.keptFrom(job, node) {
			return false
		}
		at := node.Reclaim.guest(job.ID, job.Epoch)
		return at >= 0 && (node.Reclaim.Guests[at].Fate == pb.GuestFate_GUEST_FATE_REQUEUE || node.Reclaim.Guests[at].Fate == pb.GuestFate_GUEST_FATE_CANCEL)
	})
}

// endGuest decides the end of a guest's run. It has its grace time, but not past
// the deadline (WantedAlloc.EndByMS). One that is frozen with its image, to move,
// needs no time.
func (s *State) endGuest(job *Job, names []string, fate pb.GuestFate) {
	node := s.reclaimedUnder(job, names)
	end := End{
		State: pb.JobState_JOB_STATE_PREEMPTED, Requeue: fate == pb.GuestFate_GUEST_FATE_REQUEUE,
		Preempted: &Preempted{AtMS: s.timeMS, GraceS: s.graceS(job)},
	}
	_, what := s.fate(job, true)
	end.Detail = bounds.Clip(joinSentences(node.reclaimedText(), what), bounds.MaxTextBytes)
	next := *job
	if job.frozenToMove() {
		next, end.Frozen = *s.leaving(job), true
		end.Preempted.GraceS = 0
	} else {
		next.notePreemption(job.lostGPUMS(s.timeMS))
	}
	next.decided(&end)
	s.putJob(&next)
	if !end.Frozen {
		s.noteLeft(node.Name, true)
	}
}

// reclaimedText says who has reclaimed a node.
func (n *Node) reclaimedText() string {
	if n.keepsSome() {
		return fmt.Sprintf("GPUs of node %s were reclaimed by %s", n.Name, n.Reclaim.by())
	}
	return fmt.Sprintf("node %s was reclaimed by %s", n.Name, n.Reclaim.by())
}

// graceS is how long a job may continue after the first TERM when it has to make
// room.
func (t *tables) graceS(job *Job) uint32 {
	if t.policy.Preempt.Type == sched.PreemptByQOS {
		if qos, known := t.QOS(job.Spec.QOS); known {
			return min(qos.GraceTimeS, maxGraceTimeS)
		}
	}
	if partition, known := t.policy.Partition(job.Run.Partition); known {
		return min(partition.GraceTimeS, maxGraceTimeS)
	}
	return 0
}

// park has a guest frozen on all its nodes, and parked on those that are
// reclaimed. One that is suspended already stays so for its other reasons too. A
// move is called off, and a save that is under way given up: both would keep it
// from being frozen.
func (s *State) park(job *Job, names []string) {
	if !s.parksMore(job, names) {
		return
	}
	next := s.withoutSave(s.calledOff(job, "node "+s.reclaimedUnder(job, names).Name+" was reclaimed by its owner"), "a node of it was reclaimed by its owner")
	if next.Suspended() {
		s.chargeUsage(next)
		next = next.withSuspension()
		next.Run.TurnMS = s.timeMS
		next.Run.SuspendNumber++
	} else {
		next = s.suspended(next, &Suspension{})
		next.notePreemption(0)
	}
	next, _ = next.withAlloc("")
	next.Run.Suspension.Billing = 0
	for i := range next.Run.Allocs {
		alloc := &next.Run.Allocs[i]
		node, _ := s.nodes.Get(alloc.Node)
		if _, named := slices.BinarySearch(names, alloc.Node); !named || !s.keptFrom(job, node) {
			continue
		}
		next.Run.Suspension.Reclaim = node.Reclaim.Number
		if alloc.ParkByMS == 0 || alloc.ParkByMS > node.Reclaim.DeadlineMS {
			alloc.ParkByMS = node.Reclaim.DeadlineMS
		}
	}
	s.putJob(next)
	s.imageElsewhere(next)
}

// parkAgain stores a job that has to be told once more to stop, because its node
// knows an order from a time that a restore has undone. What is not parked there has
// its devices, unless another job was given them, and time to be parked again.
func (s *State) parkAgain(next *Job, alloc *Alloc, parked bool) {
	if next.Suspended() && next.Run.Suspension.Packed != 0 { // it may have run since
		next.Run.Abandoned = next.Run.Suspension.Packed
		next = next.withSuspension()
		next.Run.Suspension.Packed = 0
	}
	if alloc.ParkByMS == 0 || parked {
		s.putJob(next)
		return
	}
	node, _ := s.nodes.Get(alloc.Node)
	switch {
	case !s.keptFrom(next, node) && alloc.ParkByMS == ParkAtLeisureMS:
	case !s.keptFrom(next, node):
		alloc.ParkByMS = s.timeMS + parkAgainMS
	default:
		alloc.ParkByMS = s.timeMS + node.Reclaim.DeadlineMS - node.Reclaim.AtMS
	}
	alloc.Parked = alloc.Parked && s.checkUnpark(next, alloc, node) != nil
	s.putJob(next)
	if !alloc.Parked {
		s.noteTaken(next.ID, next.Epoch, alloc.Node)
	}
}

// parkAgainMS is how long that may take on a node that is not reclaimed any longer.
const parkAgainMS = 60_000

// parksMore reports whether a node has to be told to park a job, or to do so
// sooner.
func (s *State) parksMore(job *Job, names []string) bool {
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, _ := s.nodes.Get(alloc.Node)
		_, named := slices.BinarySearch(names, alloc.Node)
		if named && s.keptFrom(job, node) && !alloc.Parked && (alloc.ParkByMS == 0 || alloc.ParkByMS > node.Reclaim.DeadlineMS) {
			return true
		}
	}
	return false
}

// withoutSave is a job whose save, if one is under way, is given up. An
// allocation that is frozen for it is told so.
func (s *State) withoutSave(job *Job, why string) *Job {
	saving := job.Saving()
	if saving == nil {
		return job
	}
	next, saved := job.withSaved()
	next.setSaving(nil)
	next.Run.Abandoned = saving.Number
	saved.FailedNumber, saved.Failed, saved.FailedMS = saving.Number, why, s.timeMS
	return next
}

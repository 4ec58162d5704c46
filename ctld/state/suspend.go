package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/sched"
)

// Suspension says that a run should stop (scontrol(1), suspend). The job keeps
// its devices, its memory and its licenses; the CPUs of an allocation are free
// once its node has said that it is stopped (AllocsSuspended).
type Suspension struct {
	// Held: an administrator suspended it, and the job continues only once one
	// resumes it (ResumeJobs). Otherwise it continues by itself when its CPUs
	// are free (ContinueJobs).
	Held bool `cbor:"1,keyasint,omitempty"`
	// For is the job that it made room for; 0 = none.
	For    uint32 `cbor:"2,keyasint,omitempty"`
	Detail string `cbor:"3,keyasint,omitempty"` // why, with the figures
	// Billing is what the run is billed a second meanwhile, as in Run: for all
	// but its CPUs.
	Billing int64 `cbor:"4,keyasint,omitempty"`
	// Reclaim is the number of the last reclaim of a node for which it stops; 0 =
	// there was none. Then it is billed nothing.
	Reclaim uint32 `cbor:"5,keyasint,omitempty"`
	// Owner: For is a job of the owner of some of its nodes, where it is parked. It is
	// billed nothing then either.
	Owner bool `cbor:"6,keyasint,omitempty"`
	// Packed is the number of an image by which the run is frozen, and that is only on
	// its own node yet: the run ends once it is elsewhere. 0 = there is none.
	Packed uint32 `cbor:"85,keyasint,omitempty"`
}

// SuspendJobs stops running jobs until an administrator resumes them. It may be
// applied twice without harm.
type SuspendJobs struct {
	Targets []Target `cbor:"1,keyasint"`
	UID     uint32   `cbor:"2,keyasint,omitempty"`
	// Privileged: an administrator or operator asks. Nobody else may.
	Privileged bool `cbor:"3,keyasint,omitempty"`
	// Coordinator is the caller, if they coordinate accounts, whose jobs they
	// see.
	Coordinator string `cbor:"4,keyasint,omitempty"`
}

func (SuspendJobs) kind() Kind { return KindSuspendJobs }

// Slurm's sentences, with additions.
const (
	textMayNotSuspend = textNotYours + ": only administrators and operators suspend and resume jobs, but gcancel --signal=STOP --full stops your own"
	textNotSuspended  = "Job is not suspended"
	textConfiguring   = textTryLater + ": some of its nodes are not ready yet"
)

func (c SuspendJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, anyone: true}, result, func(job *Job) (*Job, Code, string) {
		switch {
		case !c.Privileged:
			return nil, Denied, textMayNotSuspend
		case job.Phase == Waiting:
			return nil, WrongState, textIsPending
		case job.Phase != Running:
			return nil, AlreadyDone, textAlreadyOver
		case job.Configuring():
			return nil, WrongState, textConfiguring
		case !job.Suspended():
			return s.suspended(s.calledOff(job, "it was suspended"), &Suspension{Held: true}), OK, ""
		case job.Run.Suspension.Held:
			return nil, AlreadyDone, ""
		}
		// It is stopped to make room, and must not continue by itself now.
		next := job.withSuspension()
		next.Run.Suspension.Held = true
		return next, OK, ""
	})
}

// ResumeJobs lets jobs that an administrator suspended continue. They do once
// their CPUs are free, and until then say what they wait for.
type ResumeJobs struct {
	Targets    []Target `cbor:"1,keyasint"`
	UID        uint32   `cbor:"2,keyasint,omitempty"`
	Privileged bool     `cbor:"3,keyasint,omitempty"` // as in SuspendJobs
	// Coordinator is as in SuspendJobs.
	Coordinator string `cbor:"4,keyasint,omitempty"`
}

func (ResumeJobs) kind() Kind { return KindResumeJobs }
func (c ResumeJobs) apply(s *State, result *Result) {
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, anyone: true}, result, func(job *Job) (*Job, Code, string) {
		switch {
		case !c.Privileged:
			return nil, Denied, textMayNotSuspend
		case job.Phase == Waiting:
			return nil, WrongState, textIsPending
		case job.Phase != Running:
			return nil, AlreadyDone, textAlreadyOver
		case !job.Suspended():
			return nil, WrongState, textNotSuspended
		case !job.Run.Suspension.Held:
			return nil, AlreadyDone, "" // it continues by itself
		}
		next := job.withSuspension()
		next.Run.Suspension.Held = false
		return next, OK, ""
	})
}

// Suspended says that the job does not run now, but continues later.
func (j *Job) Suspended() bool { return j.Phase == Running && j.Run.Suspension != nil }

// withSuspension is a copy of a suspended job, whose suspension may be changed.
func (j *Job) withSuspension() *Job {
	next, run, suspension := *j, *j.Run, *j.Run.Suspension
	run.Suspension = &suspension
	next.Run = &run
	return &next
}

// suspended is a running job that should be stopped from now on. It charges
// what the job has used until now, so the result must be stored.
func (s *State) suspended(job *Job, suspension *Suspension) *Job {
	s.chargeUsage(job)
	next, run := *job, *job.Run
	next.Run = &run
	run.RanMS, run.TurnMS = run.ranMS(s.timeMS), s.timeMS
	run.SuspendNumber++
	run.Suspension = suspension
	partition, _ := s.policy.Partition(run.Partition) // nil: it no longer exists
	suspension.Billing = billed(s.policy, partition, run.amounts(job.Spec.Licenses))
	return &next
}

// ranMS is how long a run has run at a time, without the times for which it was
// suspended.
func (r *Run) ranMS(atMS int64) int64 {
	switch {
	case r.Suspension != nil:
		return r.RanMS
	case r.TurnMS != 0:
		return r.RanMS + max(atMS-r.TurnMS, 0)
	}
	return max(atMS-r.StartMS, 0)
}

// pausedMS is how long a run has been suspended so far, at a time.
func (r *Run) pausedMS(atMS int64) int64 { return max(atMS-r.StartMS-r.ranMS(atMS), 0) }

// turnMS is when it started, or was last suspended or continued.
func (r *Run) turnMS() int64 { return max(r.StartMS, r.TurnMS) }

// chargedMS is until when its usage has been charged.
func (r *Run) chargedMS() int64 { return max(r.turnMS(), r.ForgottenMS) }

// billing is what the run is billed a second now.
func (r *Run) billing() int64 {
	if r.Suspension != nil {
		return r.Suspension.Billing
	}
	return r.Billing
}

// suspendedWord says why a suspended job does not continue, as far as the state
// knows.
func (t *tables) suspendedWord(job *Job) string {
	why, reclaimed := job.Run.Suspension, t.reclaimedWord(job)
	switch {
	case why.Held:
		return joinSentences(joinSentences(why.Detail, reclaimed), fmt.Sprintf("suspended by an administrator until gcontrol resume %d", job.ID))
	case reclaimed != "" && t.packedHere(job):
		return joinSentences(joinSentences(why.Detail, reclaimed), fmt.Sprintf("or elsewhere from image %d as soon as a second node has a copy of that", why.Packed))
	case reclaimed != "":
		return joinSentences(why.Detail, reclaimed)
	}
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		if !alloc.Frozen {
			return joinSentences(why.Detail, "node "+alloc.Node+" has not stopped it yet")
		}
		if by := t.holderOf(alloc); by != 0 {
			return joinSentences(why.Detail, fmt.Sprintf("continues when its CPUs on node %s are free, of which job %d has some", alloc.Node, by))
		}
		if by := t.takerOf(alloc); by != 0 {
			return joinSentences(why.Detail, fmt.Sprintf("continues when its GPUs on node %s are free, of which job %d has some", alloc.Node, by))
		}
	}
	return joinSentences(why.Detail, "continues as soon as jobs that go before it leave its CPUs free")
}

// holderOf is a job that has CPUs of a stopped allocation; 0 = they are free.
func (t *tables) holderOf(alloc *Alloc) uint32 {
	for other := range t.JobsOn(alloc.Node) {
		if held := other.Alloc(alloc.Node); held.holdsCPUs() && sharesCPUs(held.CPUs, alloc.CPUs) {
			return other.ID
		}
	}
	return 0
}

// sharesCPUs reports whether two ascending lists have a CPU in common.
func sharesCPUs(a, b []uint32) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// holdsCPUs reports whether no other job may have the allocation's CPUs.
func (p *Alloc) holdsCPUs() bool { return !p.Released && !p.Frozen }

// heldAfterRequeue is how a requeued run leaves its job: one that an
// administrator suspended is held (scontrol(1), suspend).
func heldAfterRequeue(job *Job) (held sched.Hold, detail string) {
	if job.Phase != Ending || job.Run.Suspension == nil || !job.Run.Suspension.Held {
		return sched.NotHeld, ""
	}
	return sched.HeldByAdmin, "held, because it was suspended by an administrator"
}

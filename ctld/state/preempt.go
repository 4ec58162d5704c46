package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// PreemptJobs decides the end of running jobs, so that waiting ones get their
// room: they are requeued, or over as PREEMPTED, or suspended. The plan was
// made from an older state, so each is checked against the present one, and
// stays if it need not go any longer: see Result.Preemptions.
type PreemptJobs struct {
	Preemptions []PreemptOrder `cbor:"1,keyasint"`
}

// PreemptOrder is one job that should make room for another.
type PreemptOrder struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
	For   uint32 `cbor:"3,keyasint"`
	// Cancel: it is cancelled rather than requeued. A job that may not be
	// requeued is cancelled in any case.
	Cancel bool `cbor:"4,keyasint,omitempty"`
	// GraceS is how long it may continue after the first TERM, before it is ended
	// like any other job.
	GraceS uint32 `cbor:"5,keyasint,omitempty"`
	// LostGPUMS is what it loses, as in sched.Preemption.
	LostGPUMS int64 `cbor:"6,keyasint,omitempty"`
	// NextGPUMS is what the next best choice would have cost, to be reported.
	HasNext   bool  `cbor:"7,keyasint,omitempty"`
	NextGPUMS int64 `cbor:"8,keyasint,omitempty"`
	// Suspend: it is suspended, and continues by itself later.
	Suspend bool `cbor:"9,keyasint,omitempty"`
	// Save: it is saved first, and resumes from there later. If that fails it
	// is requeued or cancelled.
	Save bool `cbor:"20,keyasint,omitempty"`
	// Own: For is a job of the owner of some of its nodes, where it is a guest. Park:
	// it is parked there, and continues by itself later.
	Own  bool `cbor:"21,keyasint,omitempty"`
	Park bool `cbor:"22,keyasint,omitempty"`
	// Fills: it fills a hole, which is needed: For is the job that is planned there, or 0
	// if it is needed for something else. GoneByMS is when it should be gone, in log time.
	Fills    bool  `cbor:"560,keyasint,omitempty"`
	GoneByMS int64 `cbor:"561,keyasint,omitempty"`
}

// PlanToPreemptions makes the command of a plan's preemptions. The plan was made
// from a snapshot of this view.
func (v *View) PlanToPreemptions(plan *sched.Plan) PreemptJobs {
	var command PreemptJobs
	for i := range plan.Preemptions {
		p := &plan.Preemptions[i]
		job, known := v.Job(uint32(p.Victim))
		if !known {
			continue
		}
		command.Preemptions = append(command.Preemptions, PreemptOrder{
			Job: job.ID, Epoch: job.Epoch, For: uint32(p.For), Cancel: p.Mode == sched.PreemptCancel && job.Spec.Requeue,
			Suspend: p.Mode == sched.PreemptSuspend, Save: p.Mode == sched.PreemptCheckpoint,
			Own: p.Own, Park: p.Mode == sched.PreemptPark, Fills: p.Fills, GoneByMS: p.GoneByMS,
			GraceS: p.GraceS, LostGPUMS: p.LostGPUMS, HasNext: p.Choice.NextBest != nil, NextGPUMS: p.Choice.NextCostMS,
		})
	}
	return command
}

// Preempted names the job that the end of a run made room for.
type Preempted struct {
	For    uint32 `cbor:"1,keyasint"`
	AtMS   int64  `cbor:"2,keyasint"`
	GraceS uint32 `cbor:"3,keyasint,omitempty"`
	// ByMS is until when it has to be over, however long its grace time is; 0 = no such
	// time.
	ByMS int64 `cbor:"420,keyasint,omitempty"`
}

// PreemptResult is the outcome of one order.
type PreemptResult struct {
	Job, Epoch, For uint32
	Requeued        bool
	Suspended       bool
	Parked          bool   // or will be: it is suspended, and leaves its devices too
	Saving          bool   // it is saved first
	Dropped         string // why it stays; "" = it goes
}

func (PreemptJobs) kind() Kind { return KindPreemptJobs }

func (c PreemptJobs) apply(s *State, result *Result) {
	if len(c.Preemptions) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d preemptions in one plan are too many: at most %d", len(c.Preemptions), bounds.MaxTargets)
		return
	}
	for i := range c.Preemptions {
		order := &c.Preemptions[i]
		answer := PreemptResult{Job: order.Job, Epoch: order.Epoch, For: order.For}
		job, waiting, err := s.checkPreemption(order)
		switch {
		case err != nil:
			answer.Dropped = err.Error()
		case job.frozenToMove() && !order.Suspend && !order.Cancel:
			answer.Requeued = true // it is saved, and frozen
			s.leave(job, order, job.Run.Move.Number)
		case order.Suspend:
			answer.Suspended = true
			s.suspendFor(job, waiting, order)
		case order.Park && s.endsFor(job, waiting, order) == "":
			answer.Parked = true
			s.parkFor(job, waiting, order)
		case order.Save && s.saveToPreempt(job, order):
			answer.Saving = true
		default:
			answer.Requeued = s.preempt(job, waiting, order)
		}
		result.Preemptions = append(result.Preemptions, answer)
	}
}

// checkPreemption says why a job need not go any longer, or which job is to go
// for which.
func (s *State) checkPreemption(order *PreemptOrder) (victim, waiting *Job, err error) {
	victim, known := s.Job(order.Job)
	switch {
	case s.awaited > 0:
		return nil, nil, fmt.Errorf("after a restore %d nodes have not spoken yet", s.awaited)
	case !known:
		return nil, nil, fmt.Errorf("job %d is not known", order.Job)
	case victim.Epoch != order.Epoch:
		return nil, nil, fmt.Errorf("job %d has had another start since", order.Job)
	case victim.Phase != Running:
		return nil, nil, fmt.Errorf("job %d does not run any more", order.Job)
	case victim.Suspended():
		return nil, nil, fmt.Errorf("job %d is suspended", order.Job)
	case (order.Suspend || order.Park) && victim.Configuring():
		return nil, nil, fmt.Errorf("job %d is being started", order.Job)
	case victim.Leaving():
		return nil, nil, fmt.Errorf("job %d leaves as soon as it is saved", order.Job)
	}
	waiting, known = s.Job(order.For)
	switch {
	case order.Fills && !victim.Run.Fills:
		return nil, nil, fmt.Errorf("job %d fills no hole", order.Job)
	case order.Fills && order.For == 0:
		return victim, nil, nil
	case !known || waiting.Phase != Waiting:
		return nil, nil, fmt.Errorf("job %d, for which it should go, does not wait any more", order.For)
	case waiting.Held != sched.NotHeld:
		return nil, nil, fmt.Errorf("job %d, for which it should go, is held", order.For)
	case order.Own || order.Park:
		if err := s.checkGuest(waiting, victim); err != nil {
			return nil, nil, err
		}
	case !order.Fills && !s.mayPreempt(waiting, victim):
		return nil, nil, fmt.Errorf("job %d may not preempt job %d any more", order.For, order.Job)
	}
	return victim, waiting, nil
}

// mayPreempt reports whether one job may preempt another under the policy in
// force.
func (t *tables) mayPreempt(waiting, victim *Job) bool {
	switch t.policy.Preempt.Type {
	case sched.PreemptByQOS:
		qos, known := t.QOS(waiting.Spec.QOS)
		return known && slices.Contains(qos.Preempts, victim.Spec.QOS) && t.preemptMode(victim) != sched.PreemptOff
	case sched.PreemptByPartition:
		in, known := t.policy.Partition(victim.Run.Partition)
		return known && t.preemptMode(victim) != sched.PreemptOff && slices.ContainsFunc(waiting.Spec.Partitions, func(name string) bool {
			from, known := t.policy.Partition(name)
			return known && from.PriorityTier > in.PriorityTier
		})
	}
	return false
}

// preemptMode is the policy's mode for a running job that is preempted.
func (t *tables) preemptMode(victim *Job) policy.PreemptMode {
	mode := sched.PreemptUnset
	switch t.policy.Preempt.Type {
	case sched.PreemptByQOS:
		if qos, known := t.QOS(victim.Spec.QOS); known {
			mode = qos.PreemptMode
		}
	case sched.PreemptByPartition:
		if partition, known := t.policy.Partition(victim.Run.Partition); known {
			mode = partition.PreemptMode
		}
	default:
		return sched.PreemptOff
	}
	if mode == sched.PreemptUnset {
		mode = t.policy.Preempt.Mode
	}
	if mode == sched.PreemptUnset {
		return sched.PreemptOff
	}
	return mode
}

// SuspendsToMakeRoom reports whether some jobs may be suspended for others.
// Such jobs may be preempted as soon as they are ready.
func (t *tables) SuspendsToMakeRoom() bool {
	if len(t.policy.Owners) > 0 {
		return true // guests may be parked
	}
	if t.policy.Preempt.Type == sched.PreemptNone {
		return false
	}
	if t.policy.Suspends() {
		return true
	}
	for qos := range t.AllQOS() {
		if qos.PreemptMode == sched.PreemptSuspend {
			return true
		}
	}
	return false
}

// preempt decides the end of a run, and reports whether the job is requeued.
func (s *State) preempt(victim, waiting *Job, order *PreemptOrder) (requeued bool) {
	next, preempted := *victim, Preempted{For: order.For, AtMS: s.timeMS, GraceS: min(order.GraceS, maxGraceTimeS)}
	switch {
	case order.Own || order.Park:
		preempted.ByMS = s.timeMS + s.noticeMS(victim, waiting)
	case order.Fills:
		preempted.ByMS = max(order.GoneByMS, s.timeMS+1)
	}
	next.notePreemption(order.LostGPUMS)
	next.decided(&End{
		State:     pb.JobState_JOB_STATE_PREEMPTED,
		Requeue:   victim.Spec.Requeue && !order.Cancel,
		Detail:    s.preemptedSentence(victim, waiting, order),
		Preempted: &preempted,
	})
	s.putJob(&next)
	return next.End.Requeue
}

// suspendFor suspends a job whose CPUs another needs. It loses nothing.
func (s *State) suspendFor(victim, waiting *Job, order *PreemptOrder) {
	words := s.preemptorWords(waiting, victim, order)
	next := s.suspended(s.calledOff(victim, "it was suspended to make room for "+words), &Suspension{For: order.For, Detail: "suspended for " + words})
	next.notePreemption(0)
	s.putJob(next)
}

// preemptorWords name the job that others make room for.
func (s *State) preemptorWords(waiting, victim *Job, order *PreemptOrder) string {
	if order.Own || order.Park {
		return s.ownerWords(waiting, victim)
	}
	if order.Fills {
		return order.plannedWords()
	}
	if s.policy.Preempt.Type == sched.PreemptByQOS {
		return fmt.Sprintf("job %d of QOS %s", order.For, waiting.Spec.QOS)
	}
	return fmt.Sprintf("job %d for partition %s", order.For, strings.Join(waiting.Spec.Partitions, ","))
}

// preemptedSentence is why a job had to go, with the figures.
func (s *State) preemptedSentence(victim, waiting *Job, order *PreemptOrder) string {
	var out strings.Builder
	out.WriteString("preempted by " + s.preemptorWords(waiting, victim, order))
	unit := victim.Run.unit()
	fmt.Fprintf(&out, ": lost %s", lostText(order.LostGPUMS, unit))
	if order.HasNext {
		fmt.Fprintf(&out, "; the next best choice would have cost %s", lostText(order.NextGPUMS, unit))
	}
	switch {
	case !victim.Spec.Requeue && !order.Cancel:
		out.WriteString("; cancelled, because it was submitted with --no-requeue")
	case order.Own || order.Park:
		out.WriteString("; requeued, because " + cmp.Or(s.endsFor(victim, waiting, order), "it could not be parked"))
	case order.Fills:
		out.WriteString("; requeued, because it could not be checkpointed" + s.failedNow(victim))
	case s.preemptMode(victim) == sched.PreemptCheckpoint && victim.Spec.Requeue:
		out.WriteString("; requeued, because it could not be checkpointed" + s.failedNow(victim))
	case s.preemptMode(victim) == sched.PreemptCheckpoint:
		out.WriteString("; cancelled, because it could not be checkpointed and was submitted with --no-requeue")
	}
	return out.String()
}

// unit is the unit in which the work of a run is counted.
func (r *Run) unit() string {
	if slices.ContainsFunc(r.Allocs, func(p Alloc) bool { return len(p.Devices) > 0 }) {
		return "GPU"
	}
	return "CPU"
}

// lostText writes work in a suitable unit: "1.2 GPU-hours".
func lostText(ms int64, unit string) string {
	scale, word := int64(1000), "seconds"
	switch {
	case ms >= 3_600_000:
		scale, word = 3_600_000, "hours"
	case ms >= 60_000:
		scale, word = 60_000, "minutes"
	}
	tenths := max(ms, 0) / (scale / 10)
	return fmt.Sprintf("%d.%d %s-%s", tenths/10, tenths%10, unit, word)
}

// leavePatienceMS is how much longer than its grace time, or its time to be parked, a
// preempted job may take before others are preempted instead: longer than a node takes
// to clean up.
const leavePatienceMS = 2 * 60 * 1000

// leavesByMS is until when a job that was preempted should be gone, or stopped;
// 0 = it was not preempted.
func (t *tables) leavesByMS(job *Job) int64 {
	switch {
	case job.Leaving():
		return job.Run.Saving.DeadlineMS + leavePatienceMS
	case job.Suspended():
		return max(job.Run.TurnMS, job.parkByMS()) + leavePatienceMS
	}
	if job.End == nil || job.End.Preempted == nil {
		return 0
	}
	p := job.End.Preempted
	return p.AtMS + (int64(p.GraceS)+int64(t.policy.KillWaitS))*1000 + leavePatienceMS
}

// parkByMS is when a run that is to be parked must be; 0 = it is, or is not to be.
func (j *Job) parkByMS() (atMS int64) {
	for i := range j.Run.Allocs {
		if alloc := &j.Run.Allocs[i]; !alloc.Parked {
			atMS = max(atMS, alloc.ParkByMS)
		}
	}
	return atMS
}

// preemptEligibleMS is from when on a run may be preempted; 0 = preemption is
// off for it.
func (t *tables) preemptEligibleMS(job *Job) int64 {
	if t.preemptMode(job) == sched.PreemptOff {
		return 0
	}
	exemptS := t.policy.Preempt.ExemptTimeS
	if qos, known := t.QOS(job.Spec.QOS); known && qos.ExemptTimeS != nil {
		exemptS = *qos.ExemptTimeS
	}
	return job.Run.StartMS + int64(exemptS)*1000
}

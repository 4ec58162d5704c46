package state

import "github.com/gleaner-hpc/gleaner/sched"

// UpdateJobs changes jobs that wait, and some fields of jobs that run. Each
// record is changed whole or not at all, and the result is checked like a
// submission. Users may change their own jobs where that gives them no
// advantage over a new submission: a time limit that they could have submitted with, or a shorter one once
// the job runs, a nice value that is not negative, a hold; a coordinator
// may change those of the account, as their owners may (scontrol(1),
// AUTHORIZATION).
type UpdateJobs struct {
	Targets    []Target  `cbor:"1,keyasint"`
	UID        uint32    `cbor:"2,keyasint,omitempty"`
	Privileged bool      `cbor:"3,keyasint,omitempty"`
	Change     JobChange `cbor:"4,keyasint"`
	// Coordinator is the caller, if they coordinate accounts: see Coordinates.
	Coordinator string `cbor:"5,keyasint,omitempty"`
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"6,keyasint,omitempty"`
}

func (UpdateJobs) kind() Kind { return KindUpdateJobs }

// Slurm's sentences about updates.
const (
	textTimeLimit = "Requested time limit is invalid (missing or exceeds some limit)"
	textNotArray  = "Invalid job array specification"
)

func (c UpdateJobs) apply(s *State, result *Result) {
	who := requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}
	if c.Change.MaxRunning != nil {
		for i := range c.Targets {
			if len(c.Targets[i].Tasks) > 0 {
				result.Refused = refuse(Invalid, "%s: ArrayTaskThrottle is that of the whole array: name it as %d", textNotArray, c.Targets[i].Job)
				return
			}
		}
	}
	s.onTargets(c.Targets, who, result, func(job *Job) (*Job, Code, string) {
		next, refused := s.updated(job, &c.Change, who)
		if refused != nil {
			return nil, refused.Code, refused.Message
		}
		return next, OK, ""
	})
	if c.Change.Dependencies == nil || !c.Change.Dependencies.has(afterCorr) {
		return
	}
	for _, changed := range result.Jobs {
		if changed.Code == OK {
			s.decideTasks(changed.Job)
		}
	}
}

// updated is a job after a change, or why it cannot be made.
func (s *State) updated(job *Job, change *JobChange, who requester) (*Job, *Refusal) {
	if refused := s.mayUpdate(job, change, who); refused != nil {
		return nil, refused
	}
	next := *job
	spec := *job.Spec
	change.onSpec(&spec)
	if change.AddTimeS != 0 {
		limit, refused := addedTime(job.limitS(), change.AddTimeS)
		if refused != nil {
			return nil, refused
		}
		spec.TimeLimitS = limit
	}
	if refused := mayRelimit(job, &spec, change, who); refused != nil {
		return nil, refused
	}
	own := job.Own()
	renamed := change.onOwn(&own)
	if refused := s.checkUpdated(&SubmitJob{Spec: spec, Own: own, Owner: *job.Owner()}, change); refused != nil {
		return nil, refused
	}
	if refused := s.updateWaits(job, &next, &spec, change, who); refused != nil {
		return nil, refused
	}
	if change.Account != nil || change.QOS != nil || change.Partitions != nil {
		var refused *Refusal
		if next.Association, refused = s.charge(&spec, job.Owner()); refused != nil {
			return nil, refused
		}
	}
	if change.Reservations != nil {
		if refused := s.checkJobReservations(spec.Reservations, job.Owner().User, next.Association); refused != nil {
			return nil, refused
		}
	}
	if refused := s.checkUpdatedLimits(job, next.Association, &spec, change, who); refused != nil {
		return nil, refused
	}
	interned, err := s.internSpec(&spec, job.Owner())
	if err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	if next.Run != nil && change.relimits() && interned.TimeLimitS != job.limitS() {
		run := *next.Run
		run.Relimited, run.LimitS = true, 0
		next.Run = &run
	}
	next.Spec = interned
	if renamed {
		next.own = s.internOwn(&own)
	}
	if next.Dependencies.has(singleton) {
		s.judgeSingleton(&next)
	}
	if job.Phase == Waiting {
		s.cancelInvalid(&next)
	}
	return &next, nil
}

// mayUpdate refuses changes by the job's phase and by the caller.
func (s *State) mayUpdate(job *Job, change *JobChange, who requester) *Refusal {
	switch {
	case job.Phase == Finished:
		return refuse(WrongState, "%s", textAlreadyOver)
	case job.Phase == Ending:
		return refuse(WrongState, "%s", textTryLater)
	case job.Phase != Waiting && change.onlyPending() != "":
		return refuse(WrongState, "%s (%s can be changed only of jobs that wait)", textNotPending, change.onlyPending())
	case change.MaxRunning != nil && job.Array == 0:
		return refuse(Invalid, "%s: this is no array, and has no ArrayTaskThrottle", textNotArray)
	case job.Staged != nil && change.resizes():
		return refuse(WrongState, "its files are staged for what it asked for: cancel it, and submit it again")
	case job.Phase == Waiting && len(job.Images()) > 0 && (change.resizes() || change.Checkpoint != nil):
		return refuse(WrongState, "it resumes from an image, and what it needs is as it was then: gcontrol requeue %d lets it start over, and be changed", job.ID)
	case who.privileged:
		return nil
	case change.Account != nil && job.Owner().UID != who.uid && !s.coordinatesAccount(who.coordinator, *change.Account):
		return refuse(Denied, "%s: you do not coordinate account %s, which would be charged for somebody else's job", textNotYours, quotedUnlessValid(*change.Account))
	case change.DeadlineMS != nil:
		return refuse(Denied, "%s: only administrators may change a Deadline", textNotYours)
	case change.Nice != nil && *change.Nice < min(job.Spec.Nice, 0):
		return refuse(Denied, "%s: only administrators may lower a Nice value below %d", textNotYours, min(job.Spec.Nice, 0))
	case change.Priority != nil && *change.Priority != 0:
		return refuse(Denied, "%s: only administrators may set a Priority; raise the Nice value to lower it, or hold the job", textNotYours)
	}
	return nil
}

// mayRelimit reports whether a user may change the time limit of a job: raise it
// too while the job waits, as who submits it again could.
func mayRelimit(job *Job, spec *Spec, change *JobChange, who requester) *Refusal {
	limitS := spec.TimeLimitS
	if change.relimits() && limitS > job.limitS() && job.Phase != Waiting && !who.privileged {
		return refuse(Denied, "%s: only administrators may raise the TimeLimit of a job that runs", textNotYours)
	}
	if limitS == 0 {
		return refuse(Invalid, "%s: give at least a minute", textTimeLimit)
	}
	if job.Phase == Waiting && (change.relimits() || change.TimeMinS != nil) {
		return checkTimeMin(spec)
	}
	return nil
}

// addedTime is a time limit plus or minus some seconds.
func addedTime(limitS uint32, addS int64) (uint32, *Refusal) {
	sum := int64(limitS) + addS
	switch {
	case limitS == sched.Unlimited:
		return 0, refuse(Invalid, "%s: the job has no limit to add to or to take from; give one with TimeLimit=", textTimeLimit)
	case sum <= 0:
		return 0, refuse(Invalid, "%s: nothing would be left of it", textTimeLimit)
	case sum >= int64(sched.Unlimited):
		return 0, refuse(Invalid, "%s: it would be too long; give TimeLimit=UNLIMITED for none", textTimeLimit)
	}
	return uint32(sum), nil
}

// checkUpdated checks the result of a change like a submission.
func (s *State) checkUpdated(c *SubmitJob, change *JobChange) *Refusal {
	if err := checkRequestSizes(c); err != nil {
		return refuse(Invalid, "%v", err)
	}
	if change.Checkpoint != nil {
		if err := c.Spec.checkCheckpoint(); err != nil {
			return refuse(Invalid, "%v", err)
		}
	}
	if change.Partitions != nil || change.Network != nil {
		return choosePartitions(s.policy, &c.Spec, c.Owner.UID)
	}
	return nil
}

// checkUpdatedLimits refuses a job that limits and licenses would never let
// start. Administrators may exceed limits (scontrol(1)).
func (s *State) checkUpdatedLimits(job *Job, association uint32, spec *Spec, change *JobChange, who requester) *Refusal {
	if job.Phase != Waiting {
		return nil
	}
	if change.Licenses != nil {
		if refused := checkLicenses(s.policy, spec.Licenses); refused != nil {
			return refused
		}
	}
	if who.privileged || !s.policy.Accounting.EnforcesLimits() {
		return nil
	}
	counts := s.limitCounts()
	return counts.neverStarts(sched.Charge{
		Association: counts.index.association(association), QOS: counts.index.qosNamed(spec.QOS), UID: job.Owner().UID,
		Licenses:   schedLicenses(&counts.snapshot, len(s.policy.Licenses), spec.Licenses),
		TimeLimitS: spec.TimeLimitS,
	}, s.policy, spec, job.Owner())
}

// updateWaits changes what belongs to the record: what the job waits for, and
// its priority.
func (s *State) updateWaits(job, next *Job, spec *Spec, change *JobChange, who requester) *Refusal {
	if change.Dependencies != nil {
		dependencies := *change.Dependencies
		if refused := s.checkDependencies(job, &dependencies, who); refused != nil {
			return refused
		}
		next.Dependencies = dependencies
		s.decideDependencies(next)
	}
	set(&next.BeginMS, change.BeginMS)
	set(&next.DeadlineMS, change.DeadlineMS)
	if change.DeadlineMS != nil || change.BeginMS != nil || change.relimits() || change.TimeMinS != nil {
		judged := *next
		judged.Spec = spec
		if refused := s.checkDeadline(&judged); refused != nil && job.Phase == Waiting {
			return refused
		}
	}
	if change.ResetAge {
		next.AgedMS, next.EligibleMS = 0, max(next.EligibleMS, s.timeMS)
	}
	return setPriority(next, change.Priority, spec, who)
}

// setPriority fixes a priority; 0 holds, any other releases (scontrol(1),
// Priority).
func setPriority(next *Job, priority *uint32, spec *Spec, who requester) *Refusal {
	switch {
	case priority == nil:
	case *priority == 0:
		if next.Held != sched.HeldByAdmin {
			next.Held = heldBy(next, who)
		}
	case !mayRelease(next, who):
		return refuse(Denied, "%s", textNotYours)
	default:
		releaseHold(next)
		next.FixedPriority, spec.Nice = *priority, 0
	}
	return nil
}

// Changed is the submission that a job would be after a change, for the checks
// that are made before it is proposed.
func (t *tables) Changed(job *Job, change *JobChange) SubmitJob {
	c := SubmitJob{Spec: *job.Spec, Own: job.Own(), Owner: *job.Owner()}
	change.onSpec(&c.Spec)
	change.onOwn(&c.Own)
	return c
}

package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NoteTimeLimits says that parts of time limits are over, so that it can be told: the
// leader's clock says when. What was said of a run before is not said again.
type NoteTimeLimits struct {
	Due []LimitDue `cbor:"1,keyasint"` // at most MaxTargets
}

// LimitDue is a run of which a part of the time limit is over.
type LimitDue struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
	Parts uint32 `cbor:"3,keyasint"` // bits of spec.MailTimeLimits: all that are over
}

func (NoteTimeLimits) kind() Kind { return KindNoteTimeLimits }

func (c NoteTimeLimits) apply(s *State, _ *Result) {
	for _, due := range c.Due[:min(len(c.Due), bounds.MaxTargets)] {
		job, known := s.Job(due.Job)
		parts := spec.MailTypes(due.Parts) & spec.MailTimeLimits
		if !known || job.Phase != Running || job.Epoch != due.Epoch || parts&^spec.MailTypes(job.Run.LimitTold) == 0 {
			continue
		}
		next, run := *job, *job.Run
		fresh := parts &^ spec.MailTypes(run.LimitTold)
		run.LimitTold |= uint32(parts)
		next.Run = &run
		s.putJob(&next)
		types := spec.MailTypes(job.Spec.MailTypes)
		if told := furthest(fresh & types); told != 0 && s.policy.Mail != nil {
			s.addMail(types, told, &next, nil)
		}
	}
}

// limitParts are the parts of a time limit, the last first.
var limitParts = []struct {
	kind    spec.MailTypes
	percent int64
}{{spec.MailTimeLimit, 100}, {spec.MailTimeLimit90, 90}, {spec.MailTimeLimit80, 80}, {spec.MailTimeLimit50, 50}}

// furthest is the last of some parts; 0 = there are none.
func furthest(parts spec.MailTypes) spec.MailTypes {
	for _, part := range limitParts {
		if parts&part.kind != 0 {
			return part.kind
		}
	}
	return 0
}

// TimeLimitsDue are the runs of whose time limits a part is over at a time, of which
// somebody wants to hear and was not told.
func (v *View) TimeLimitsDue(nowMS int64) []LimitDue {
	var due []LimitDue
	for job := range v.LiveJobs() {
		wanted := spec.MailTypes(job.Spec.MailTypes) & spec.MailTimeLimits
		if wanted == 0 || job.Phase != Running || job.Stages() {
			continue
		}
		over := job.limitOver(nowMS)
		if over&wanted&^spec.MailTypes(job.Run.LimitTold) == 0 {
			continue
		}
		if due = append(due, LimitDue{Job: job.ID, Epoch: job.Epoch, Parts: uint32(over)}); len(due) == bounds.MaxTargets {
			break
		}
	}
	return slices.Clip(due)
}

// limitOver are the parts of a job's time limit that are over.
func (j *Job) limitOver(nowMS int64) (over spec.MailTypes) {
	limitS := j.TimeLimitS()
	if j.Run == nil || limitS == 0 || limitS == spec.Unlimited || j.Run.Suspension != nil {
		return 0
	}
	ran := nowMS - j.Run.StartMS
	if j.Run.TurnMS != 0 {
		ran = j.Run.RanMS + nowMS - j.Run.TurnMS
	}
	for _, part := range limitParts {
		if ran*100 >= int64(limitS)*1000*part.percent {
			over |= part.kind
		}
	}
	return over
}

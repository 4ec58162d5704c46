package mail

import (
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// watch knows how far the jobs are of which somebody wants mail, so that each step
// is told once. It has no clock and no I/O.
type watch struct {
	jobs   map[uint32]*course
	arrays map[uint32]*summary
}

// course is how far a job is.
type course struct {
	rank  uint64         // grows with each step of its life
	never bool           // its dependency can never be met, and that was told
	told  spec.MailTypes // of the time limits of this run
	epoch uint32
}

// summary is what is known of the tasks of an array that are over.
type summary struct {
	begun, failed bool
	codes         [2]uint32 // the lowest and the highest exit code
	over          int
	states        map[pb.JobState]bool
}

// event is something to tell about a job.
type event struct {
	kind  spec.MailTypes
	job   *state.Job
	array *summary // of an array as a whole; nil = of one job
	again bool     // the end is that of a run, and the job waits again
}

// newWatch takes everything in a state for told.
func newWatch(view *state.View) *watch {
	w := &watch{jobs: map[uint32]*course{}, arrays: map[uint32]*summary{}}
	for job := range view.LiveJobs() {
		if job.Spec.MailTypes == 0 {
			continue
		}
		w.jobs[job.ID] = &course{rank: rank(job), never: job.NeverStarts(), told: elapsed(job, view.TimeMS()), epoch: job.Epoch}
		if job.Array != 0 && job.Phase != state.Waiting {
			w.array(job.Array).begun = true
		}
	}
	return w
}

// justMS is how long ago the end of a job may be that a command has just brought.
const justMS = 2000

// rank is a number that is higher the further a job is.
func rank(job *state.Job) uint64 {
	return uint64(job.Restarts)<<36 | uint64(job.Epoch)<<4 | uint64(job.Phase)
}

func (w *watch) array(number uint32) *summary {
	s := w.arrays[number]
	if s == nil {
		s = &summary{states: map[pb.JobState]bool{}}
		w.arrays[number] = s
	}
	return s
}

// changed says what there is to tell of a job that may have changed.
func (w *watch) changed(view *state.View, id uint32) []event {
	job, known := view.Job(id)
	if !known || job.Spec.MailTypes == 0 {
		return nil
	}
	types := spec.MailTypes(job.Spec.MailTypes)
	had := w.jobs[id]
	if had == nil {
		had = &course{rank: uint64(job.Restarts)<<36 | uint64(state.Waiting)}
		if job.Phase == state.Finished && job.End.EndMS < view.TimeMS()-justMS { // it was over before this controller led
			had.rank, had.epoch = rank(job), job.Epoch
		}
		w.jobs[id] = had
	}
	var events []event
	if never := job.NeverStarts(); never && !had.never {
		events = append(events, event{kind: spec.MailInvalidDepend, job: job})
		had.never = true
	} else if !never {
		had.never = false
	}
	now := rank(job)
	if now > had.rank {
		before := had.rank
		had.rank = now
		if job.Epoch != had.epoch {
			had.epoch, had.told = job.Epoch, 0
		}
		events = append(events, w.step(view, job, before)...)
	}
	wanted := events[:0]
	for _, e := range events {
		if types&e.kind != 0 {
			wanted = append(wanted, e)
		}
	}
	return wanted
}

// step says what a job did since its rank was another.
func (w *watch) step(view *state.View, job *state.Job, before uint64) []event {
	summed := job.Array != 0 && spec.MailTypes(job.Spec.MailTypes)&spec.MailArrayTasks == 0
	switch {
	case job.Phase == state.Waiting && uint64(job.Restarts) > before>>36:
		return []event{{kind: spec.MailRequeue, job: job, again: true}}
	case job.Phase == state.Running && !job.Stages() && before&0xf < uint64(state.Running):
		if summed {
			array := w.array(job.Array)
			if array.begun {
				return nil
			}
			array.begun = true
			return []event{{kind: spec.MailBegin, job: job, array: array}}
		}
		return []event{{kind: spec.MailBegin, job: job}}
	case job.Phase == state.Finished:
		return w.ended(view, job, summed)
	}
	return nil
}

// ended is about a job that is over, or the array of which it was the last.
func (w *watch) ended(view *state.View, job *state.Job, summed bool) []event {
	e := event{kind: endKind(job), job: job}
	if !summed {
		return []event{e}
	}
	array := w.array(job.Array)
	array.note(job)
	if view.HasLiveTasks(job.Array) {
		return nil
	}
	delete(w.arrays, job.Array)
	e.array, e.kind = array, spec.MailEnd
	if array.failed {
		e.kind = failKind(job)
	}
	return []event{e}
}

// endKind: completed and cancelled jobs have ended, all others have failed. Who wants
// to hear of ends but not of failures hears of those as ends (slurmctld does so).
func endKind(job *state.Job) spec.MailTypes {
	switch job.End.State {
	case pb.JobState_JOB_STATE_COMPLETED, pb.JobState_JOB_STATE_CANCELLED:
		return spec.MailEnd
	}
	return failKind(job)
}

func failKind(job *state.Job) spec.MailTypes {
	if spec.MailTypes(job.Spec.MailTypes)&spec.MailFail != 0 {
		return spec.MailFail
	}
	return spec.MailEnd
}

func (s *summary) note(job *state.Job) {
	code := job.End.ExitCode
	if s.over == 0 {
		s.codes = [2]uint32{code, code}
	}
	s.codes = [2]uint32{min(s.codes[0], code), max(s.codes[1], code)}
	s.over++
	s.states[job.End.State] = true
	s.failed = s.failed || job.End.State != pb.JobState_JOB_STATE_COMPLETED && job.End.State != pb.JobState_JOB_STATE_CANCELLED
}

// limits says of which running jobs a part of the time limit is over now.
func (w *watch) limits(view *state.View, nowMS int64) []event {
	var events []event
	for id, had := range w.jobs {
		job, known := view.Job(id)
		if !known || job.Phase != state.Running || had.epoch != job.Epoch {
			continue
		}
		types := spec.MailTypes(job.Spec.MailTypes)
		over := elapsed(job, nowMS)
		if due := over &^ had.told & types; due != 0 {
			events = append(events, event{kind: furthest(due), job: job})
		}
		had.told |= over
	}
	return events
}

// parts of a time limit, the last first.
var parts = []struct {
	kind    spec.MailTypes
	percent int64
}{{spec.MailTimeLimit, 100}, {spec.MailTimeLimit90, 90}, {spec.MailTimeLimit80, 80}, {spec.MailTimeLimit50, 50}}

// elapsed are the parts of a job's time limit that are over.
func elapsed(job *state.Job, nowMS int64) (over spec.MailTypes) {
	limitS := job.TimeLimitS()
	if job.Run == nil || limitS == 0 || limitS == spec.Unlimited || job.Run.Suspension != nil {
		return 0
	}
	ran := nowMS - job.Run.StartMS
	if job.Run.TurnMS != 0 {
		ran = job.Run.RanMS + nowMS - job.Run.TurnMS
	}
	for _, part := range parts {
		if ran*100 >= int64(limitS)*1000*part.percent {
			over |= part.kind
		}
	}
	return over
}

func furthest(due spec.MailTypes) spec.MailTypes {
	for _, part := range parts {
		if due&part.kind != 0 {
			return part.kind
		}
	}
	return 0
}

// forget drops what is no longer known.
func (w *watch) forget(purged []uint32) {
	for _, id := range purged {
		delete(w.jobs, id)
	}
}

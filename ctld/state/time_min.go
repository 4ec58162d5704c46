package state

import (
	"fmt"

	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has jobs that may start with less than their time limit (sbatch(1), --time-min).
// The plan chooses the limit when such a job starts. It is the run's, and is not raised
// again by itself. A job that is requeued asks for its whole limit again.

// checkTimeMin refuses a least time limit that is more than the limit.
func checkTimeMin(asked *Spec) *Refusal {
	if asked.TimeMinS > asked.TimeLimitS {
		return refuse(Invalid, "%s: the time limit of %s is less than the %s that the job needs at least: give a lower --time-min (TimeMin), or a longer --time (TimeLimit)",
			textTimeLimit, words.FormatTime(asked.TimeLimitS), words.FormatTime(asked.TimeMinS))
	}
	return nil
}

// leastS is the least time limit with which a job may start.
func (s *Spec) leastS() uint32 {
	if s.TimeMinS == 0 {
		return s.TimeLimitS
	}
	return min(s.TimeMinS, s.TimeLimitS)
}

// limitS is the time limit of a job, in this run if it has one.
func (j *Job) limitS() uint32 {
	if j.Run != nil && j.Run.LimitS != 0 {
		return j.Run.LimitS
	}
	return j.Spec.TimeLimitS
}

// leastLeftS is the limit of the present run, or the least with which the next may start:
// minus what the job had run when the image was made that it resumes from.
func (j *Job) leastLeftS() uint32 {
	if j.Run == nil {
		return j.leftS(j.Spec.leastS())
	}
	return j.limitLeftS()
}

// limitRun gives a run that starts the time limit that was chosen for it, and says why it
// may not have it on its nodes. 0 = all that the job asks for.
func (s *State) limitRun(job *Job, run *Run, chosenS uint32) error {
	began := *job
	began.Phase, began.Run = Running, run
	least, most := began.leftS(job.Spec.leastS()), began.limitLeftS()
	if chosenS != 0 {
		if chosenS < least || chosenS > most {
			return fmt.Errorf("job %d may not start with a time limit of %s", job.ID, words.FormatTime(chosenS))
		}
		run.LimitS = chosenS
		if run.Restore != nil {
			run.LimitS += uint32(min(run.Restore.RanMS/1000, int64(job.Spec.TimeLimitS-chosenS)))
		}
	}
	for i := range run.Allocs {
		if why := s.keptReserved(&began, run.Allocs[i].Node); why != "" {
			return fmt.Errorf("node %s %s", run.Allocs[i].Node, why)
		}
	}
	return nil
}

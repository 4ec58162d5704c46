package ordered

import (
	"cmp"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// life is how far a job, or a task of an array, has come by the log. The checks
// of what waits go by it, and never by what the state decided itself.
type life struct {
	phase   state.Phase
	well    bool  // it is over and ended well
	again   bool  // it was requeued, and waits for no job any more
	beganMS int64 // log time at which it started last, or was over without that
}

// taskOf names a job by the number that its user was told, and a task of it.
type taskOf struct {
	number uint32
	index  int // plain, where the job is no array
}

const plain = -1

func (l life) begun() bool { return l.phase != 0 && l.phase != state.Waiting }
func (l life) over() bool  { return l.phase == state.Finished }
func (l life) holds() bool { return l.phase == state.Running || l.phase == state.Ending }

// live notes what an entry changed, and answers the numbers of the jobs and
// arrays of which it did.
func (w *World) live(view *state.View, changed []uint32) (moved []uint32) {
	for _, id := range changed {
		job, known := view.Job(id)
		if !known {
			continue
		}
		now := life{phase: job.Phase, again: job.Restarts > 0, well: job.Phase == state.Finished && job.State() == pb.JobState_JOB_STATE_COMPLETED}
		switch {
		case job.Run != nil:
			now.beganMS = job.Run.StartMS
		case job.End != nil:
			now.beganMS = job.End.EndMS
		}
		number := cmp.Or(job.Array, job.ID)
		for _, index := range indicesIn(job) {
			w.lives[taskOf{number, index}] = now
		}
		w.numbers[id] = number
		moved = append(moved, number)
	}
	return moved
}

// indicesIn are the tasks that a record stands for.
func indicesIn(job *state.Job) []int {
	switch {
	case job.HasTask:
		return []int{int(job.Task)}
	case job.Array == 0:
		return []int{plain}
	}
	var indices []int
	for _, r := range job.Tasks {
		for index := r.First; index <= r.Last; index += r.Step {
			indices = append(indices, int(index))
		}
	}
	return indices
}

// indices are the tasks that a user asked for.
func (in *intent) indices() []int {
	if in.spec.GetArray() == nil {
		return []int{plain}
	}
	var indices []int
	for _, r := range in.spec.GetArray().GetRanges() {
		for index := r.GetFirst(); index <= r.GetLast(); index += r.GetStep() {
			indices = append(indices, int(index))
		}
	}
	return indices
}

// targetOf names the tasks of one record, and none of its array's others.
func targetOf(job *state.Job) state.Target {
	switch {
	case job.HasTask:
		return state.Target{Job: job.Array, Tasks: []ranges.Range{{First: job.Task, Last: job.Task, Step: 1}}}
	case job.Array != 0:
		return state.Target{Job: job.Array, Tasks: job.Tasks}
	}
	return state.Target{Job: job.ID}
}

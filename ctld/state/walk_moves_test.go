package state

import "testing"

// runsOf are jobs, each with all its runs as its nodes have them.
func runsOf(jobs []*Job) []*Job {
	var all []*Job
	for _, job := range jobs {
		all = append(all, job)
		for i := range job.Run.Beside {
			all = append(all, job.as(&job.Run.Beside[i]))
		}
	}
	return all
}

// failMoves has nodes say that they cannot resume jobs, and moves be late.
func (w *walker) failMoves(v *View) Command {
	var c FailMoves
	for _, job := range inPhases(v, Running) {
		if job.Moving() == nil || w.chance(60) {
			continue
		}
		ref := MoveRef{Job: job.ID, Number: job.Run.Move.Number - uint32(w.Intn(10)/9), Reason: "test"}
		if w.chance(80) {
			successor := job.Successor()
			ref.Epoch, ref.Node = successor.Epoch-uint32(w.Intn(10)/9), successor.Run.BatchHost()
		}
		c.Moves = append(c.Moves, ref)
	}
	return c
}

// tallyMoves counts what becomes of moves, and checks that of each it is one thing:
// the successor is the run and the original is never told to continue, or the original
// is the run and is told to.
func tallyMoves(t *testing.T, was, job *Job, tally map[string]int) {
	t.Helper()
	if was == nil || was.Moving() == nil || job.Phase == Running && job.Moving() != nil && job.Epoch == was.Epoch {
		return
	}
	move, successor := was.Run.Move, was.Successor()
	switch {
	case job.Phase == Waiting || job.Phase == Finished:
	case job.Epoch != was.Epoch:
		tally["moved"]++
		if !move.Made || job.Epoch != successor.Epoch || !job.Run.Moved || job.Run.Restore.Number != move.Number || job.Run.Abandoned != 0 {
			t.Fatalf("job %d: run %d took the place of run %d, which was to be %+v by %+v", job.ID, job.Epoch, was.Epoch, successor, move)
		}
		original := job.Run.beside(was.Epoch)
		if original == nil || !original.Over || original.Run.Abandoned != 0 {
			t.Fatalf("job %d: the run that has left is %+v", job.ID, original)
		}
	case job.Phase == Ending:
		tally["ended in a move"]++
	case job.Run.Abandoned != move.Number && job.Saving() == nil:
		t.Fatalf("job %d: its move is over, and nobody tells it to continue", job.ID)
	default:
		tally["called off"]++
		if len(job.Saved.MoveFailed.Tries) > 0 {
			tally["called off after tries"]++
		}
	}
	if b := job.Run; job.HoldsNodes() && b.Abandoned != 0 && job.Epoch == was.Epoch {
		if s := b.beside(successor.Epoch); s != nil && !s.Over {
			t.Fatalf("job %d continues, and so may %+v", job.ID, s)
		}
	}
}

// checkOneRuns: a node is told to let an allocation run only if the allocation
// belongs to the job's run, and never while another one of the job may.
func checkOneRuns(t *testing.T, v *View, wanted *WantedAlloc) {
	t.Helper()
	job, _ := v.Job(wanted.Job)
	switch {
	case wanted.Epoch == job.Epoch && job.frozenToMove() && (wanted.Abandon != 0 || wanted.Save != 0):
		t.Fatalf("job %d is frozen to be moved, and is told to continue: %+v", job.ID, wanted)
	case wanted.Epoch == job.Epoch:
	case wanted.ReleaseBatch || wanted.Abandon != 0 || wanted.Save != 0:
		t.Fatalf("run %d.%d, which is not the job's, is told to run: %+v", wanted.Job, wanted.Epoch, wanted)
	case wanted.Action == EndAlloc && wanted.GraceS != 0:
		t.Fatalf("run %d.%d, which does not run any more, is given time: %+v", wanted.Job, wanted.Epoch, wanted)
	}
}

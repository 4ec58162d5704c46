package state

import "fmt"

// checkMove says what is impossible in a job's other runs: at most one of all
// its runs may run, and each has its own epoch and its own nodes.
func checkMove(job *Job) error {
	if job.Run == nil {
		return nil
	}
	wrong := func(format string, arguments ...any) error {
		return fmt.Errorf("job %d: "+format, append([]any{job.ID}, arguments...)...)
	}
	successor := job.Successor()
	switch move := job.Run.Move; {
	case move == nil && successor != nil:
		return wrong("run %d is to take the place of another, and nothing moves", successor.Epoch)
	case move == nil:
	case job.Phase != Running || successor == nil:
		return wrong("moves in phase %d, with successor %v", job.Phase, successor)
	case job.Suspended():
		return wrong("moves and is suspended")
	case successor.Epoch <= job.Epoch || !successor.Run.Moved:
		return wrong("run %d is to take the place of run %d", successor.Epoch, job.Epoch)
	case move.Made && (job.Run.Saving != nil || job.Saved.image(move.Number) == nil || job.Run.Abandoned != 0):
		return wrong("is frozen by image %d, which is impossible", move.Number)
	case !move.Made && (job.Run.Saving == nil || job.Run.Saving.Purpose != SaveMove || job.Run.Saving.Number != move.Number):
		return wrong("is to move with image %d, which is not being made", move.Number)
	case move.Made != (successor.Run.Restore != nil) || move.Made && successor.Run.Restore.Number != move.Number:
		return wrong("run %d resumes from another image than %d", successor.Epoch, move.Number)
	case len(move.Tries) >= maxMoveTries:
		return wrong("is moved with %d tries", len(move.Tries))
	}
	if saving := job.Saving(); saving != nil && saving.Purpose == SaveMove && job.Run.Move == nil {
		return wrong("is saved to move, and does not move")
	}
	nodes, epochs := map[string]bool{}, map[uint32]bool{job.Epoch: true}
	for i := range job.Run.Beside {
		b := &job.Run.Beside[i]
		switch {
		case epochs[b.Epoch] || b.Epoch > job.Run.LastEpoch || b.Epoch == 0:
			return wrong("there are runs %d and %d, and the last was %d", b.Epoch, job.Epoch, job.Run.LastEpoch)
		case b.Run.Move != nil || len(b.Run.Beside) > 0 || b.Run.Saving != nil && !b.Over:
			return wrong("run %d, which is not the present one, moves itself", b.Epoch)
		case job.as(b).allReleased():
			return wrong("run %d is not the present one, and holds nothing", b.Epoch)
		}
		epochs[b.Epoch] = true
	}
	for _, held := range heldAllocs(job) {
		if held.held() && nodes[held.alloc.Node] {
			return wrong("two of its runs hold something on node %s", held.alloc.Node)
		}
		nodes[held.alloc.Node] = nodes[held.alloc.Node] || held.held()
	}
	return nil
}

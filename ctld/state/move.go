package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	words "github.com/gleaner-hpc/gleaner/proto/spec"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has the records of a job that moves. The run that moves, the
// original, stays the job's run until another one, its successor, is restored
// elsewhere to just before the first instruction. The command that records that
// the last allocation of the successor is ready makes it the job's run; until
// then nobody tells it to run. Whatever else happens ends the move, and the
// original is told to continue. See DESIGN.md, "Moves".

// Bounds of a move.
const (
	// maxMoveTries is how many nodes are tried if the user named none.
	maxMoveTries = 8
	// moveLimitMS is for how long the original is frozen after the image is
	// durable: a restore of the largest GPU memory takes minutes.
	moveLimitMS = 15 * 60 * 1000
	// maxBeside is how many runs of a job may be in the course of being ended
	// elsewhere.
	maxBeside = 8
)

// Move is a move that is under way and not decided. It belongs to the original.
type Move struct {
	Number  uint32   `cbor:"1,keyasint"`           // of the image
	To      []string `cbor:"2,keyasint,omitempty"` // as the user named them; none = any other node
	SinceMS int64    `cbor:"3,keyasint"`
	// Made: the image is durable, and the original is frozen by it and will not
	// run before the move is over. Until then Run.Saving has the progress.
	Made bool `cbor:"4,keyasint,omitempty"`
	// DeadlineMS is until when the original is frozen, once it is Made.
	DeadlineMS int64     `cbor:"5,keyasint,omitempty"`
	Tries      []MoveTry `cbor:"6,keyasint,omitempty"` // that failed, oldest first
}

// MoveTry is one failed try to resume a job that moves.
type MoveTry struct {
	Nodes  []string `cbor:"1,keyasint"` // ascending
	Node   string   `cbor:"2,keyasint"` // the one that could not
	Reason string   `cbor:"3,keyasint"`
}

// MoveFailure is the last move of a job, if it failed.
type MoveFailure struct {
	Number uint32    `cbor:"1,keyasint"` // of the image
	Reason string    `cbor:"2,keyasint"`
	AtMS   int64     `cbor:"3,keyasint"`
	Tries  []MoveTry `cbor:"4,keyasint,omitempty"`
}

// Beside is a run of a job that holds nodes in addition to the present one: the
// successor in a move, or one that is over while some node still cleans up
// after it.
type Beside struct {
	Epoch uint32 `cbor:"1,keyasint"`
	Run   *Run   `cbor:"2,keyasint"`
	// Over: it has been given up or has left. It never runs again, and its
	// nodes are told to end it, frozen as it is.
	Over bool `cbor:"3,keyasint,omitempty"`
}

// ordered reports whether its nodes may have been told of it. A successor is
// ordered only once there is an image.
func (b *Beside) ordered() bool { return b.Over || b.Run.Restore != nil }

// Moving is the move that is under way; nil when none is.
func (j *Job) Moving() *Move {
	if j.Phase != Running {
		return nil
	}
	return j.Run.Move
}

// frozenToMove says that the job's run is frozen by the image of its move, and
// does not run unless the move is called off.
func (j *Job) frozenToMove() bool { return j.Moving() != nil && j.Run.Move.Made }

// Successor is the run that is to take the place of the present one, with its
// epoch; nil when there is none.
func (j *Job) Successor() *Beside {
	if j.Run == nil {
		return nil
	}
	for i := range j.Run.Beside {
		if b := &j.Run.Beside[i]; !b.Over {
			return b
		}
	}
	return nil
}

// as is the job as if another of its runs were its only one: for readers that
// look at one node, where only one of them is. It is never stored.
func (j *Job) as(b *Beside) *Job {
	other := *j
	other.Epoch, other.Run, other.End, other.Phase = b.Epoch, b.Run, nil, Running
	if b.Over {
		other.Phase = Ending
		other.End = &End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Frozen: true}
	}
	return &other
}

// on is the job as a node has it: its present run, or the other one that holds
// something there.
func (j *Job) on(node string) *Job {
	if alloc := j.Alloc(node); alloc != nil && !alloc.Released || j.Run == nil {
		return j
	}
	for i := range j.Run.Beside {
		other := j.as(&j.Run.Beside[i])
		if alloc := other.Alloc(node); alloc != nil && !alloc.Released {
			return other
		}
	}
	return j
}

// Nodes are those of all the job's runs, released or not.
func (j *Job) Nodes() []string {
	if j.Run == nil {
		return nil
	}
	names := j.Run.nodes()
	for i := range j.Run.Beside {
		names = append(names, j.Run.Beside[i].Run.nodes()...)
	}
	return names
}

// holdsBeside reports whether a run other than the present one holds something
// on a node.
func (j *Job) holdsBeside(node string) bool {
	return slices.ContainsFunc(j.Run.Beside, func(b Beside) bool {
		return slices.ContainsFunc(b.Run.Allocs, func(p Alloc) bool { return p.Node == node && !p.Released })
	})
}

// withBeside is a copy of a job whose run, list of other runs, and what these
// hold may be changed.
func (j *Job) withBeside() *Job {
	next, run := *j, *j.Run
	next.Run = &run
	run.Beside = slices.Clone(run.Beside)
	for i := range run.Beside {
		other := *run.Beside[i].Run
		other.Allocs = slices.Clone(other.Allocs)
		run.Beside[i].Run = &other
	}
	return &next
}

// noMove ends a move in a copy of a job, whose run is copied too: the successor
// is ended where it is, or forgotten if no node has heard of it. The caller
// decides what becomes of the original.
func (j *Job) noMove() {
	run := *j.Run
	j.Run = &run
	run.Move = nil
	run.Beside = slices.DeleteFunc(slices.Clone(run.Beside), func(b Beside) bool { return !b.ordered() })
	for i := range run.Beside {
		run.Beside[i].Over = true
	}
	if len(run.Beside) == 0 {
		run.Beside = nil
	}
}

// calledOff is a job whose move failed: it continues where it is frozen, or
// would have been. A job that does not move is as it was.
func (s *State) calledOff(job *Job, why string) *Job {
	move := job.Moving()
	if move == nil {
		return job
	}
	next, saved := job.withSaved()
	next.noMove()
	if saving := next.Run.Saving; saving != nil && saving.Purpose == SaveMove {
		next.Run.Saving = nil
	}
	if next.Run.Saving == nil {
		next.Run.Abandoned = move.Number
	}
	saved.MoveFailed = &MoveFailure{Number: move.Number, Reason: bounds.Clip(why, bounds.MaxTextBytes), AtMS: s.timeMS, Tries: move.Tries}
	return next
}

// list are the nodes of a try, as a host list.
func (t *MoveTry) list() string { return words.FormatHostList(t.Nodes) }

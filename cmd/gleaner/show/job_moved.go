package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows where a job moves, and why it did not.

// jobMoved adds to a job's record the move that is under way, the last one if it
// came to nothing, and the nodes that clean up after it.
func jobMoved(r *Record, saved *pb.JobSaved, view *View) {
	if moving := saved.GetMoving(); moving != nil {
		stands := "No"
		if moving.Frozen {
			stands = "Yes"
		}
		r.Line(Item("Moving", Digits(moving.Number)), Item("MovingTo", moving.To), Item("MovingSince", view.Stamp(moving.SinceMs, "Unknown")), Item("FrozenToMove", stands))
		moveTries(r, moving.Tries)
	}
	if failed := saved.GetMoveFailed(); failed != nil {
		r.Line(Item("NotMoved", Digits(failed.Number)), Item("NotMovedTime", view.Stamp(failed.AtMs, "Unknown")), Item("NotMovedReason", failed.Reason))
		moveTries(r, failed.Tries)
	}
	if saved.Leaves != "" {
		r.Line(Item("Leaves", saved.Leaves))
	}
}

func moveTries(r *Record, tries []*pb.MoveTry) {
	for _, try := range tries {
		r.Line(Item("NotMovedTo", try.Node), Item("NotMovedToReason", try.Reason))
	}
}

// movingJSON and moveFailedJSON are the same for --json.
type movingJSON struct {
	Image      uint32        `json:"image"`
	To         string        `json:"to"`
	Frozen     bool          `json:"frozen"`
	SinceMs    int64         `json:"since_ms"`
	DeadlineMs int64         `json:"deadline_ms,omitempty"`
	Tries      []MoveTryJSON `json:"tries,omitempty"`
}

type moveFailedJSON struct {
	Image  uint32        `json:"image"`
	Reason string        `json:"reason"`
	AtMs   int64         `json:"at_ms"`
	Tries  []MoveTryJSON `json:"tries,omitempty"`
}

func movingOf(saved *pb.JobSaved) *movingJSON {
	moving := saved.GetMoving()
	if moving == nil {
		return nil
	}
	return &movingJSON{moving.Number, moving.To, moving.Frozen, moving.SinceMs, moving.DeadlineMs, triesOf(moving.Tries)}
}

func moveFailedOf(saved *pb.JobSaved) *moveFailedJSON {
	failed := saved.GetMoveFailed()
	if failed == nil {
		return nil
	}
	return &moveFailedJSON{failed.Number, failed.Reason, failed.AtMs, triesOf(failed.Tries)}
}

func triesOf(tries []*pb.MoveTry) []MoveTryJSON {
	var out []MoveTryJSON
	for _, try := range tries {
		out = append(out, MoveTryJSON{try.Nodes, try.Node, try.Reason})
	}
	return out
}

// MoveTryJSON are nodes on which a job that was to move could not continue: the one at
// fault, and why.
type MoveTryJSON struct {
	Nodes  string `json:"nodes"`
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

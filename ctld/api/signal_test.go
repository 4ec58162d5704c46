package api

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// TestMoves: a signal is sent again while a job moves, and where it runs after that; not to
// a job that waits or ends.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		what  string
		phase state.Phase
		epoch uint32
		move  *state.Move
		again bool
	}{
		{"it runs as before", state.Running, 3, nil, false},
		{"it is being moved", state.Running, 3, &state.Move{}, true},
		{"it has been moved", state.Running, 4, nil, true},
		{"it was requeued and waits", state.Waiting, 4, nil, false},
		{"it ends", state.Ending, 3, &state.Move{}, false},
	} {
		job := &state.Job{Phase: c.phase, Epoch: c.epoch, Run: &state.Run{Move: c.move}}
		if moves(job, 3) != c.again {
			t.Errorf("%s: again is not %t", c.what, c.again)
		}
	}
}

package job

import (
	"errors"
	"strings"
	"testing"
)

// TestTable spells out all 36 pairs, so that a change of the table is seen
// here as well.
func TestTable(t *testing.T) {
	const (
		yes  = true
		no   = false
		same = true
	)
	want := [6][6]bool{
		//             Preparing Ready Running Ending Ended Acknowledged
		Preparing:    {same, yes, no, yes, yes, no},
		Ready:        {no, same, yes, yes, yes, no},
		Running:      {no, no, same, yes, yes, no},
		Ending:       {no, no, no, same, yes, no},
		Ended:        {no, no, no, no, same, yes},
		Acknowledged: {no, no, no, no, no, same},
	}
	for from := range State(6) {
		for to := range State(6) {
			life := Life{state: from}
			changed, err := life.Move(to)
			legal := err == nil
			if legal != want[from][to] || legal != Legal(from, to) {
				t.Errorf("%v to %v: legal %v, want %v", from, to, legal, want[from][to])
			}
			if legal && (life.State() != to || changed != (from != to)) {
				t.Errorf("%v to %v: now %v, changed %v", from, to, life.State(), changed)
			}
			if !legal {
				if life.State() != from || changed {
					t.Errorf("an illegal move from %v led to %v", from, life.State())
				}
				if !errors.Is(err, ErrIllegal) || !strings.Contains(err.Error(), from.String()) ||
					!strings.Contains(err.Error(), to.String()) {
					t.Errorf("the error does not name both states: %v", err)
				}
			}
		}
	}
}

// TestEveryLifeEnds: from each state an allocation can still be ended and forgotten.
func TestEveryLifeEnds(t *testing.T) {
	for from := range State(6) {
		reached := map[State]bool{from: true}
		for range 6 {
			for s := range reached {
				for _, next := range table[s] {
					reached[next] = true
				}
			}
		}
		if !reached[Acknowledged] {
			t.Errorf("no way from %v to %v", from, Acknowledged)
		}
	}
}

func TestZeroAndOver(t *testing.T) {
	var life Life
	if life.State() != Preparing || life.Over() {
		t.Errorf("a new life is %v, over %v", life.State(), life.Over())
	}
	if _, err := life.Move(Ended); err != nil || !life.Over() {
		t.Errorf("ended: over %v, %v", life.Over(), err)
	}
	if _, err := life.Move(State(17)); !errors.Is(err, ErrIllegal) || !strings.Contains(err.Error(), "State(17)") {
		t.Errorf("to nowhere: %v", err)
	}
	if Legal(State(-1), Ended) {
		t.Error("from nowhere")
	}
}

package step

import (
	"errors"
	"testing"
)

func TestPMIxJobCheck(t *testing.T) {
	nodes := func(ranks ...[]uint32) []PMIxNode {
		var all []PMIxNode
		for _, r := range ranks {
			all = append(all, PMIxNode{Name: "n", Ranks: r})
		}
		return all
	}
	for name, test := range map[string]struct {
		job  PMIxJob
		want bool
	}{
		"two nodes":       {PMIxJob{Nodes: nodes([]uint32{0, 2}, []uint32{1}), Here: 1}, true},
		"no node":         {PMIxJob{}, false},
		"another node":    {PMIxJob{Nodes: nodes([]uint32{0}), Here: 1}, false},
		"before the node": {PMIxJob{Nodes: nodes([]uint32{0}), Here: -1}, false},
		"no task here":    {PMIxJob{Nodes: nodes([]uint32{0}, nil), Here: 1}, false},
		"a hole":          {PMIxJob{Nodes: nodes([]uint32{0, 2})}, false},
		"twice":           {PMIxJob{Nodes: nodes([]uint32{0, 1}, []uint32{1})}, false},
		"too many":        {PMIxJob{Nodes: nodes([]uint32{0}, make([]uint32, MaxTasks+1))}, false},
	} {
		launch := &Launch{Argv: Strings{"x"}, Tasks: []Task{{}}, Input: InputNone, PMIx: &test.job}
		_, err := Marshal(launch)
		if err == nil {
			err = check(launch)
		}
		if (err == nil) != test.want || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFenceBound(t *testing.T) {
	half := make([]byte, MaxPMIBytes/2)
	key := Pairs{"k": "v"}
	if err := check(&Fence{Pairs: key, Data: half}); err != nil {
		t.Error(err)
	}
	if err := check(&Fenced{Pairs: key, Data: append(half, half...)}); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if b, err := Marshal(&Fenced{Data: make([]byte, MaxPMIBytes)}); err != nil || len(b) > MaxControlBytes {
		t.Errorf("%d bytes: %v", len(b), err)
	}
}

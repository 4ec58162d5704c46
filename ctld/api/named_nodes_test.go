package api

import (
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestNamedNodes: a node that does not exist is refused where it is required
// and warned of where it is excluded, once any node is known.
func TestNamedNodes(t *testing.T) {
	for _, test := range []struct {
		nodes             int
		required, exclude string
		refused, warned   string
	}{
		{nodes: 2, required: "n0000", exclude: "n0001"},
		{nodes: 2, required: "n0000,n7", refused: "Invalid node name specified: there is no node n7; there are n[0000-0001]"},
		{nodes: 2, exclude: "n7", warned: "--exclude names n7, which is no node: there are n[0000-0001]"},
		{nodes: 0, required: "n7", exclude: "n8"},
		{nodes: 20, required: "x", refused: "there are n[0000-0011] and others"},
	} {
		s := machinesOf(t, test.nodes)
		command, err := state.SubmitFromSpec(&pb.JobSpec{Script: []byte("#!/bin/sh\n"), NodeList: test.required, ExcludeNodes: test.exclude}, &pb.Identity{Uid: 7})
		if err != nil {
			t.Fatal(err)
		}
		shape, err := state.ShapeOf(s.Policy(), &command)
		if err != nil {
			t.Fatal(err)
		}
		err = checkNamedNodes(s.View(), shape)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%+v: refused with %v", test, err)
		}
		if got := excludedWarning(s.View(), shape); got != test.warned {
			t.Errorf("%+v: warned of %q", test, got)
		}
	}
}

package leader

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestCommonLevel(t *testing.T) {
	newest := func(name string) *pb.Peer { return &pb.Peer{Name: name, Reachable: true, Level: uint32(state.Newest)} }
	newer := newest("c9")
	newer.Level++
	for name, test := range map[string]struct {
		peers  []*pb.Peer
		want   state.Level
		behind string
	}{
		"alone":             {[]*pb.Peer{newest("c1")}, state.Newest, ""},
		"all":               {[]*pb.Peer{newest("c1"), newest("c2"), newest("c3")}, state.Newest, ""},
		"one is newer":      {[]*pb.Peer{newest("c1"), newer}, state.Newest, ""},
		"one is older":      {[]*pb.Peer{newest("c1"), {Name: "c2", Reachable: true, Level: 1, Version: "0.1"}}, 1, "c2 (version 0.1, level 1)"},
		"one knows none":    {[]*pb.Peer{newest("c1"), {Name: "c2", Reachable: true, Version: "0.1"}}, 1, "c2 (version 0.1, level 1)"},
		"one is away":       {[]*pb.Peer{newest("c1"), {Name: "c2", Level: 2}}, 0, "c2 (does not answer)"},
		"nobody was listed": {nil, 0, ""},
	} {
		if got, behind := commonLevel(test.peers); got != test.want || behind != test.behind {
			t.Errorf("%s: level %d, behind %q", name, got, behind)
		}
	}
}

package ctld

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/api"
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
		"one is older":      {[]*pb.Peer{newest("c1"), {Name: "c2", Reachable: true, Level: uint32(state.Newest) - 1, Version: "0.1"}}, state.Newest - 1, fmt.Sprintf("c2 (version 0.1, level %d)", state.Newest-1)},
		"one is away":       {[]*pb.Peer{newest("c1"), {Name: "c2", Level: 2}}, 0, "c2 (does not answer)"},
		"nobody was listed": {nil, 0, ""},
	} {
		if got, behind := commonLevel(test.peers); got != test.want || behind != test.behind {
			t.Errorf("%s: level %d, behind %q", name, got, behind)
		}
	}
}

// TestNewerIsNotProposed: what needs a higher level than the one in force is
// refused, and the refusal names the controllers to upgrade.
func TestNewerIsNotProposed(t *testing.T) {
	c := newCluster(slog.New(slog.DiscardHandler))
	if err := c.allowLevel(state.LevelFirst); err != nil {
		t.Error(err)
	}
	if err := c.allowLevel(state.LevelFirst + 1); !errors.Is(err, api.ErrNotYet) {
		t.Errorf("before the others were asked: %v", err)
	}
	c.noteLevel(t.Context(), 0, "c2 (does not answer)")
	var refused *state.Refusal
	if err := c.allowLevel(state.LevelFirst + 1); !errors.As(err, &refused) || refused.Code != state.Disabled || !strings.Contains(refused.Message, "c2 (does not answer)") {
		t.Errorf("while c2 is behind: %v", err)
	}
}

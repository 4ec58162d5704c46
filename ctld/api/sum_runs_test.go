package api

import (
	"context"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// summing is a history in which everybody has one sum and no run.
type summing struct {
	noHistory
	chosen *history.Choice
}

func (s *summing) Sum(_ context.Context, choice history.Choice, last state.Position, _ func(*history.Found) error) ([]*pb.RunSum, state.Position, error) {
	s.chosen = &choice
	return []*pb.RunSum{{User: "ada", CpuMs: 7}}, last, nil
}

func (s *summing) Read(_ context.Context, _ history.Choice, last state.Position, _ func(*history.Found) error) (state.Position, error) {
	return last, nil
}

// answers keeps what is sent.
type answers struct {
	sink[pb.ListRunsResponse, *pb.ListRunsResponse]
	sums int
}

func (a *answers) SendMsg(message any) error {
	a.sums += len(message.(*pb.EncodedRuns).GetSums())
	return a.sink.SendMsg(message)
}

// TestSumsAreOnlyOfWhatIsSeen: with private_data nobody has sums of others, however they are
// asked for, and runs are only added up if all that match are wanted.
func TestSumsAreOnlyOfWhatIsSeen(t *testing.T) {
	for _, c := range []struct {
		private bool
		filter  *pb.JobFilter
		one     bool     // only the last run of each job
		uids    []uint32 // those that are added up
		sums    int
	}{
		{filter: nil, sums: 1},
		{filter: &pb.JobFilter{Uids: []uint32{5}}, sums: 1, uids: []uint32{5}},
		{filter: nil, one: true},
		{filter: &pb.JobFilter{Names: []string{"train"}}},
		{filter: nil, private: true, sums: 1, uids: []uint32{fuzzUser}},
		{filter: &pb.JobFilter{Uids: []uint32{5, fuzzUser}}, private: true, sums: 1, uids: []uint32{fuzzUser}},
		{filter: &pb.JobFilter{Uids: []uint32{5}}, private: true},
	} {
		l := &ledger{t: t, state: machinesOf(t, 1)}
		if c.private {
			site := policy.Message(l.View().Policy())
			site.PrivateData = []string{"jobs"}
			if result, err := l.Propose(context.Background(), state.ApplyPolicy{Policy: *policy.FromMessage(site)}, state.RequestID{}); err != nil || result.Refused != nil {
				t.Fatal(err, result.Refused)
			}
		}
		past := &summing{}
		s := NewServer(l, l, Options{History: past}).users
		got := &answers{}
		got.t, got.ctx = t, callerContext(2, "", "", "")
		if err := s.ListRuns(&pb.ListRunsRequest{Filter: c.filter, Sums: true, Duplicates: !c.one, SinceMs: 1, UntilMs: 2}, got); err != nil {
			t.Fatal(err)
		}
		if got.sums != c.sums || (past.chosen != nil) != (c.sums > 0) || past.chosen != nil && !slices.Equal(past.chosen.UIDs, c.uids) {
			t.Errorf("%+v: %d sums of %+v", c, got.sums, past.chosen)
		}
	}
}

package api

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestRunsOfAQuietCluster: what a job has run counts up to now, also when no command
// has moved the machine's time since its start.
func TestRunsOfAQuietCluster(t *testing.T) {
	l := &ledger{t: t, state: machinesOf(t, 1), sessions: session.NewRegistry(func(string) {})}
	s := NewServer(l, l, Options{}).users
	command, err := state.SubmitFromSpec(goodSpec(), &pb.Identity{Uid: fuzzUser, User: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []state.Command{command, state.PlaceJobs{Starts: []state.StartOrder{{
		Job: 1, Partition: "main", Allocs: []state.AllocOrder{{Node: "n0000", CPUs: []uint32{0}, MemoryBytes: 1 << 30, Tasks: 1}},
	}}}} {
		if result, err := l.Propose(context.Background(), c, state.RequestID{}); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	filter, err := newFilter(nil)
	if err != nil {
		t.Fatal(err)
	}
	view := l.View()
	list := &runList{request: &pb.ListRunsRequest{Live: true}, filter: filter, may: s.sightOf(&caller{isUser: true, uid: fuzzUser}, view)}
	before := time.Now().UnixMilli()
	runs := list.live(s)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	run := runs[0].run
	if ran := run.GetRanMs(); run.GetJob().GetStartMs() == 0 || ran < before-run.GetJob().GetStartMs() {
		t.Errorf("started at %d, has run %d ms, and it is %d", run.GetJob().GetStartMs(), ran, before)
	}
}

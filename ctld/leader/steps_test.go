package leader

import (
	"context"
	"log/slog"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// succeed makes another leader over the same state, which knows nothing else.
func succeed(b *book) *Leader {
	l := New(b, nil, slog.New(slog.DiscardHandler))
	b.changed = l.Changed
	l.leading.Store(true)
	return l
}

func commit(t *testing.T, l *Leader) {
	t.Helper()
	l.commitBatch(context.Background(), l.gather(<-l.reports))
}

func say(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *book) job(t *testing.T, id uint32) *state.Job {
	t.Helper()
	job, known := b.View().Job(id)
	if !known {
		t.Fatalf("job %d is gone", id)
	}
	return job
}

func submitGang(t *testing.T, b *book) uint32 {
	t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20, MinNodes: 2}, &pb.Identity{Uid: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return b.must(t, command).JobID
}

// TestStaleReportsAreAnsweredAndNotLogged: of another run, of a forgotten job,
// and said twice with another cause, of which the first counts.
func TestStaleReportsAreAnsweredAndNotLogged(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	ctx, alloc := context.Background(), &pb.AllocId{Job: id, Epoch: 1}
	say(t, l.Ended(ctx, s, &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_TIME_LIMIT}))
	say(t, l.Ended(ctx, s, &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_EXITED}))
	commit(t, l)
	if state := b.job(t, id).State(); state != pb.JobState_JOB_STATE_TIMEOUT {
		t.Fatalf("two causes make %v", state)
	}
	orders(s)
	entries := b.index
	for _, stale := range []*pb.AllocId{alloc, {Job: id, Epoch: 7}, {Job: 4711, Epoch: 1}} {
		say(t, l.Ready(ctx, s, &pb.AllocReady{Alloc: stale}))
		say(t, l.Ended(ctx, s, &pb.AllocEnded{Alloc: stale, Cause: pb.EndCause_END_CAUSE_UNKNOWN_ALLOC}))
	}
	commit(t, l)
	if got := orders(s); len(got) != 3 || got[0].GetEndedAcknowledged() == nil {
		t.Fatalf("answers: %v", got)
	}
	if b.index != entries {
		t.Errorf("%d entries for reports that change nothing", b.index-entries)
	}
	if len(s.Allocs()) != 0 {
		t.Errorf("kept of them: %v", s.Allocs())
	}
}

// TestCancelBetweenPlacementAndOrder: the node never hears of the start, is
// told to end what it does not have, and says so.
func TestCancelBetweenPlacementAndOrder(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: id}}, Privileged: true})
	dispatch(l)
	if got := orders(s); len(got) != 1 || got[0].GetEndAlloc() == nil {
		t.Fatalf("orders: %v", got)
	}
	// Not even when it connects again before it has answered.
	s = connect(t, l, b, "n1")
	dispatch(l)
	if got := orders(s); len(got) != 1 || got[0].GetEndAlloc() == nil {
		t.Fatalf("orders after a reconnection: %v", got)
	}
	say(t, l.Ended(context.Background(), s, &pb.AllocEnded{Alloc: &pb.AllocId{Job: id, Epoch: 1}, Cause: pb.EndCause_END_CAUSE_UNKNOWN_ALLOC}))
	commit(t, l)
	if job := b.job(t, id); job.State() != pb.JobState_JOB_STATE_CANCELLED || job.Phase != state.Finished {
		t.Fatalf("the job is %v in phase %d", job.State(), job.Phase)
	}
}

// TestEachStepSurvivesItsLeader takes a gang through its life with a new
// leader, which nobody has told anything, before each step: what is to be done
// follows from the state and from what the nodes say.
func TestEachStepSurvivesItsLeader(t *testing.T) {
	_, b := begin(t)
	ctx := context.Background()
	alloc := &pb.AllocId{}
	has := map[string][]*pb.RunningAlloc{}
	// next is a new leader, to which both nodes have connected.
	next := func() (*Leader, map[string]*session.Session) {
		l := succeed(b)
		sessions := map[string]*session.Session{}
		for _, node := range []string{"n1", "n2"} {
			sessions[node] = connect(t, l, b, node, has[node]...)
		}
		return l, sessions
	}
	next()
	id := submitGang(t, b)
	alloc.Job, alloc.Epoch = id, 1
	l, _ := next()
	plan(t, l)
	l, sessions := next()
	dispatch(l)
	for node, s := range sessions {
		if got := orders(s); len(got) != 1 || got[0].GetStartAlloc() == nil || !got[0].GetStartAlloc().GetGang() {
			t.Fatalf("%s is to start: %v", node, got)
		}
		has[node] = []*pb.RunningAlloc{{Alloc: alloc}}
	}
	say(t, l.Ready(ctx, sessions["n1"], &pb.AllocReady{Alloc: alloc}))
	commit(t, l)
	has["n1"][0].Ready = true
	l, sessions = next()
	dispatch(l)
	if got := append(orders(sessions["n1"]), orders(sessions["n2"])...); len(got) != 0 {
		t.Fatalf("half of a gang is ready: %v", got)
	}
	// n2 tells by registering; then the release is due, once in each session:
	// gnoded may be restarted before it has passed it on.
	has["n2"][0].Ready = true
	for range 2 {
		l, sessions = next()
		dispatch(l)
		l.NodeReported("n1")
		dispatch(l)
		if got := orders(sessions["n1"]); len(got) != 1 || got[0].GetReleaseBatch() == nil {
			t.Fatalf("the batch host is to begin: %v", got)
		}
		if got := orders(sessions["n2"]); len(got) != 0 {
			t.Fatalf("beside it: %v", got)
		}
	}
	say(t, l.Ended(ctx, sessions["n1"], &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_EXITED}))
	commit(t, l)
	has["n1"] = nil
	l, sessions = next()
	dispatch(l)
	if got := orders(sessions["n2"]); len(got) != 1 || !got[0].GetEndAlloc().GetBatchEnded() {
		t.Fatalf("the rest of the gang is to end: %v", got)
	}
	if got := orders(sessions["n1"]); len(got) != 0 {
		t.Fatalf("the batch host has ended: %v", got)
	}
	say(t, l.Ended(ctx, sessions["n2"], &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_CANCELLED}))
	commit(t, l)
	if job := b.job(t, id); job.State() != pb.JobState_JOB_STATE_COMPLETED || job.Phase != state.Finished {
		t.Fatalf("the job is %v in phase %d", job.State(), job.Phase)
	}
}

// TestGangLosesANodeBeforeRelease: an allocation that was ready and is missing when
// its node registers is lost, and the script is not started without it.
func TestGangLosesANodeBeforeRelease(t *testing.T) {
	l, b := begin(t)
	first, second := connect(t, l, b, "n1"), connect(t, l, b, "n2")
	id := submitGang(t, b)
	plan(t, l)
	dispatch(l)
	alloc := &pb.AllocId{Job: id, Epoch: 1}
	orders(first)
	say(t, l.Ready(context.Background(), first, &pb.AllocReady{Alloc: alloc}))
	say(t, l.Ready(context.Background(), second, &pb.AllocReady{Alloc: alloc}))
	commit(t, l)
	connect(t, l, b, "n2") // without it
	dispatch(l)
	if got := orders(first); len(got) != 1 || got[0].GetEndAlloc() == nil {
		t.Fatalf("orders: %v", got)
	}
}

// TestPurgeGivesUp: a policy that keeps jobs longer, applied while jobs are
// being forgotten, must not make the loop write entries forever.
func TestPurgeGivesUp(t *testing.T) {
	l, b := begin(t)
	id := submit(t, b)
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: id}}, Privileged: true})
	entries := b.index
	l.purgeBefore(context.Background(), b.View().TimeMS()+1)
	if b.index != entries+1 {
		t.Fatalf("%d entries to forget nothing", b.index-entries)
	}
}

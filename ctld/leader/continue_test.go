package leader

import (
	"context"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// TestSuspension: the job of the higher tier gets the CPUs of the job of the
// lower tier once the node has said that the latter is stopped; later that job
// continues by itself. Each order is sent once in a session, and again in the
// next.
func TestSuspension(t *testing.T) {
	l, b := begin(t)
	b.must(t, state.ApplyPolicy{Policy: policy.Policy{
		Partitions: []policy.Partition{
			{Name: "high", Nodes: "ALL", Up: true, PriorityTier: 2},
			{Name: "low", Nodes: "ALL", Up: true, PriorityTier: 1, GraceTimeS: 60, Default: true},
		},
		Preempt: policy.Preempt{Type: sched.PreemptByPartition, Mode: sched.PreemptSuspend},
	}})
	s := connect(t, l, b, "n1")
	var victim uint32
	suspends := func() (found []*pb.SuspendAlloc) {
		t.Helper()
		plan(t, l)
		dispatch(l)
		for _, order := range orders(s) {
			if order.GetEndAlloc().GetAlloc().GetJob() == victim {
				t.Fatalf("the victim is ended: %v", order)
			}
			if suspend := order.GetSuspendAlloc(); suspend != nil {
				found = append(found, suspend)
			}
		}
		return found
	}
	victim = submitTo(t, b, "low", true)
	suspends()
	alloc := session.Alloc{Job: victim, Epoch: 1}
	if err := l.Ready(context.Background(), s, &pb.AllocReady{Alloc: alloc.ID()}); err != nil {
		t.Fatal(err)
	}
	urgent := submitTo(t, b, "high", true)
	plan(t, l)
	woken(l.queuedWake)
	l.CommitReports(context.Background())
	if !woken(l.queuedWake) {
		t.Error("a job that may make room has become ready, and nothing is planned")
	}
	plan(t, l)
	if got := suspends(); len(got) != 1 || got[0].Number != 1 || !got[0].Suspended || got[0].Alloc.Job != victim {
		t.Fatalf("orders: %v", got)
	}
	if got := suspends(); len(got) != 0 {
		t.Fatalf("told again: %v", got)
	}
	says := func(number uint32, stands bool) {
		t.Helper()
		if err := l.Suspended(context.Background(), s, &pb.AllocSuspended{Alloc: alloc.ID(), Number: number, Frozen: stands}); err != nil {
			t.Fatal(err)
		}
		before := b.View().Index()
		l.CommitReports(context.Background())
		if news := number == 1 && stands; (b.View().Index() > before) != news {
			t.Errorf("order %d, suspended %t: in the log: %t", number, stands, !news)
		}
	}
	says(1, false)
	if job, _ := b.View().Job(urgent); job.Phase != state.Waiting {
		t.Fatal("it runs before the other is stopped")
	}
	says(1, true)
	says(0, true)
	suspends()
	if job, _ := b.View().Job(urgent); job.Phase != state.Running {
		t.Fatal("the job that preempts does not run")
	}
	// In the next session the node is told again.
	s = connect(t, l, b, "n1", &pb.RunningAlloc{Alloc: alloc.ID(), Ready: true, SuspendNumber: 1, Frozen: true},
		&pb.RunningAlloc{Alloc: &pb.AllocId{Job: urgent, Epoch: 1}, Ready: true})
	if got := suspends(); len(got) != 1 || got[0].Number != 1 || !got[0].Suspended {
		t.Fatalf("orders in a new session: %v", got)
	}
	b.must(t, state.AllocsEnded{Reports: []state.AllocReport{{Job: urgent, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_EXITED}}})
	if got := suspends(); len(got) != 1 || got[0].Number != 2 || got[0].Suspended {
		t.Fatalf("orders when it is over: %v", got)
	}
	if job, _ := b.View().Job(victim); job.State() != pb.JobState_JOB_STATE_RUNNING || job.Epoch != 1 {
		t.Errorf("the victim is %+v", job)
	}
}

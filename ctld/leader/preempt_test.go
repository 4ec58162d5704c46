package leader

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// submitTo submits a job that takes a whole node of a partition.
func submitTo(t *testing.T, b *book, partition string, requeue bool) uint32 {
	t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{
		Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20, CpusPerTask: 8,
		Partitions: []string{partition}, Requeue: requeue,
	}, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return b.must(t, command).JobID
}

// TestPreemption: the job of the higher tier gets the node once that of the
// lower one is gone, nobody is told twice, and a cancel ends the grace.
func TestPreemption(t *testing.T) {
	l, b := begin(t)
	b.must(t, state.ApplyPolicy{Policy: policy.Policy{
		Partitions: []policy.Partition{
			{Name: "high", Nodes: "ALL", Up: true, PriorityTier: 2},
			{Name: "low", Nodes: "ALL", Up: true, PriorityTier: 1, GraceTimeS: 60, Default: true},
		},
		Preempt: policy.Preempt{Type: sched.PreemptByPartition, Mode: sched.PreemptRequeue},
	}})
	s := connect(t, l, b, "n1")
	victim := submitTo(t, b, "low", true)
	plan(t, l)
	dispatch(l)
	if got := orders(s); len(got) != 1 || got[0].GetStartAlloc() == nil {
		t.Fatalf("orders: %v", got)
	}
	s.Report(session.Alloc{Job: victim, Epoch: 1}, session.Reported{Ready: true})
	urgent := submitTo(t, b, "high", true)
	for range 3 {
		plan(t, l)
		dispatch(l)
	}
	got := orders(s)
	if len(got) != 1 || got[0].GetEndAlloc().GetGraceS() != 90 || got[0].GetEndAlloc().GetTermAgainS() != 60 {
		t.Fatalf("orders: %v", got)
	}
	if overlay, _ := l.Overlay(urgent); overlay.Reason != "Resources" || overlay.Detail != "waits for job 1 to make room" {
		t.Errorf("the job that preempts waits for %+v", overlay)
	}
	if job, _ := b.View().Job(victim); job.LostBefore().Count != 1 || !job.End.Requeue || job.End.Preempted.For != urgent {
		t.Errorf("the victim is %+v", job)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(l.metrics.preempts)
	if families, err := registry.Gather(); err != nil || families[0].Metric[0].Counter.GetValue() != 1 {
		t.Errorf("what is counted: %v, %v", families, err)
	}
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: victim}}, Privileged: true})
	dispatch(l)
	if got := orders(s); len(got) != 1 || got[0].GetEndAlloc().GetGraceS() != 30 || got[0].GetEndAlloc().GetTermAgainS() != 0 {
		t.Fatalf("after a cancel: %v", got)
	}
	b.must(t, state.AllocsEnded{Reports: []state.AllocReport{{Job: victim, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_CANCELLED}}})
	plan(t, l)
	if job, _ := b.View().Job(urgent); job.Phase != state.Running {
		t.Errorf("the job that preempts is in phase %d", job.Phase)
	}
}

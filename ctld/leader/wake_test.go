package leader

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func woken(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// TestWhatWakesTheSchedule: a plan that was carried out whole is not followed
// by another, and new jobs do not hurry.
func TestWhatWakesTheSchedule(t *testing.T) {
	l, b := begin(t)
	connect(t, l, b, "n1")
	if !woken(l.freedWake) {
		t.Error("a node came and nothing is planned")
	}
	id := submit(t, b)
	if woken(l.freedWake) || !woken(l.queuedWake) {
		t.Error("a new job hurries, or is not planned")
	}
	plan(t, l)
	if woken(l.freedWake) || woken(l.queuedWake) {
		t.Error("a plan that was carried out whole is made again")
	}
	b.must(t, state.PlaceJobs{Starts: []state.StartOrder{{Job: id, Partition: "main", Allocs: []state.AllocOrder{{Node: "n1"}}}}})
	if !woken(l.freedWake) {
		t.Error("a start was dropped and the plan is not made again")
	}
	b.must(t, state.CancelJobs{Targets: []state.Target{{Job: id}}, Privileged: true})
	if !woken(l.freedWake) {
		t.Error("a job was cancelled and nothing is planned")
	}
}

// TestNewJobsRest: new jobs wait until the loop has rested, what came free
// does not.
func TestNewJobsRest(t *testing.T) {
	l, b := begin(t)
	submit(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan bool, 1)
	go func() { answered <- l.awaitWork(ctx, time.Now().Add(time.Hour), time.Time{}) }()
	select {
	case <-answered:
		t.Fatal("a new job did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	wake(l.freedWake)
	if !<-answered || woken(l.queuedWake) {
		t.Fatal("what came free does not end the rest, or the new job is planned twice")
	}
	submit(t, b)
	if !l.awaitWork(ctx, time.Now(), time.Time{}) {
		t.Fatal("a new job is not planned after the rest")
	}
	cancel()
	if l.awaitWork(ctx, time.Now(), time.Time{}) {
		t.Fatal("the loop does not end")
	}
}

// TestEndedAtOnceIsOneEntry: that an allocation was ready is not worth an entry when
// the end of its script waits to be committed too.
func TestEndedAtOnceIsOneEntry(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	entries, alloc := b.index, &pb.AllocId{Job: id, Epoch: 1}
	say(t, l.Ready(context.Background(), s, &pb.AllocReady{Alloc: alloc}))
	say(t, l.Ended(context.Background(), s, &pb.AllocEnded{Alloc: alloc, Cause: pb.EndCause_END_CAUSE_EXITED}))
	commit(t, l)
	if b.index != entries+1 || b.job(t, id).State() != pb.JobState_JOB_STATE_COMPLETED {
		t.Fatalf("%d entries, the job is %v", b.index-entries, b.job(t, id).State())
	}
}

// TestRegisteringAgainHurriesNobody: thousands of nodes that lost a leader and have nothing new
// do not have a plan made after each other; one that has come, or has changed, does at once.
func TestRegisteringAgainHurriesNobody(t *testing.T) {
	l, b := begin(t)
	register := func(ns int64, cpus uint32) {
		t.Helper()
		command := state.RegisterFromMessage(&pb.Register{Node: "n1", SentBoottimeNs: ns, Inventory: &pb.Inventory{Cpus: cpus, MemoryBytes: 8 << 30, BootId: "b"}})
		b.must(t, b.View().AbridgeRegistration(command))
	}
	register(1, 8)
	if !woken(l.freedWake) {
		t.Error("the first registration wakes nobody")
	}
	register(2, 8)
	if woken(l.freedWake) || !woken(l.queuedWake) {
		t.Error("one with nothing new hurries the plan, or wakes nobody")
	}
	register(3, 16)
	if !woken(l.freedWake) {
		t.Error("one with more CPUs wakes nobody")
	}
}

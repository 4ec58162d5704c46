package leader

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

func submitSpec(t *testing.T, b *book, job *pb.JobSpec) uint32 {
	t.Helper()
	job.Name, job.Script, job.WorkDirectory, job.MemoryPerNodeBytes = "j", []byte("#!/bin/sh\n"), "/", 1<<20
	command, err := state.SubmitFromSpec(job, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return b.must(t, command).JobID
}

// TestNextPass: the loop sleeps until the begin of a job comes, or its deadline
// goes, and then plans though nothing happened.
func TestNextPass(t *testing.T) {
	l, b := begin(t)
	connect(t, l, b, "n1")
	plan(t, l)
	if due := l.NextPass(); !due.IsZero() {
		t.Errorf("without jobs a pass is due at %v", due)
	}
	begins := time.Now().Add(time.Hour).UnixMilli()
	later := submitSpec(t, b, &pb.JobSpec{BeginMs: begins})
	plan(t, l)
	if due := l.NextPass().UnixMilli(); due != begins+1 {
		t.Errorf("the next pass is due at %d, the job begins at %d", due, begins)
	}
	if overlay, said := l.Overlay(later); !said || overlay.Reason != "BeginTime" {
		t.Errorf("it waits for %+v", overlay)
	}
	last := time.Now().Add(30 * time.Minute).UnixMilli()
	late := submitSpec(t, b, &pb.JobSpec{BeginMs: begins - 1_900_000, DeadlineMs: last + 60_000, TimeLimitS: 60})
	plan(t, l)
	if due := l.NextPass().UnixMilli(); due != begins-1_900_000+1 {
		t.Errorf("the next pass is due at %d", due)
	}
	// Its begin has come and gone while no node was there.
	l.Plan(context.Background(), time.UnixMilli(last+1), new(Memo))
	if b.job(t, late).Phase != state.Waiting {
		t.Error("it was ended by the clock of one pass, and not by that of the log")
	}
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	for _, channel := range []chan struct{}{l.freedWake, l.queuedWake} {
		woken(channel)
	}
	if !l.awaitWork(ctx, time.Time{}, time.Now().Add(20*time.Millisecond)) {
		t.Error("the time came and nothing was planned")
	}
}

// TestDeadlinePasses: a job that can no longer meet its deadline is ended by the
// pass that finds it.
func TestDeadlinePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := begin(t)
		id := submitSpec(t, b, &pb.JobSpec{DeadlineMs: time.Now().UnixMilli() + 3_660_000, TimeLimitS: 60})
		plan(t, l)
		if b.job(t, id).Phase != state.Waiting || l.NextPass().IsZero() {
			t.Fatal("it is over before its time, or no pass is due")
		}
		time.Sleep(time.Until(l.NextPass()) + time.Millisecond)
		plan(t, l)
		if b.job(t, id).State() != pb.JobState_JOB_STATE_DEADLINE {
			t.Errorf("it is %v", b.job(t, id).State())
		}
	})
}

// TestClockBehindTheLog: the clock of a leader is behind the log's, because the last one's
// was ahead. Its plan is for the time that the log has: what the log takes for too late is
// not proposed again and again.
func TestClockBehindTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := begin(t)
		submitted := time.Now()
		late := submitSpec(t, b, &pb.JobSpec{DeadlineMs: submitted.UnixMilli() + 120_000, TimeLimitS: 60})
		begins := submitSpec(t, b, &pb.JobSpec{BeginMs: submitted.UnixMilli() + 60_000})
		time.Sleep(90 * time.Second)
		connect(t, l, b, "n1")
		for range 2 {
			l.Plan(context.Background(), submitted, new(Memo))
		}
		if got := b.job(t, late).State(); got != pb.JobState_JOB_STATE_DEADLINE {
			t.Errorf("the job that can meet its deadline no longer is %v", got)
		}
		if got := b.job(t, begins).Phase; got != state.Running {
			t.Errorf("the job whose begin has come is %v", got)
		}
	})
}

// TestStartWakesWhatWaitsForIt, though the plan was carried out whole.
func TestStartWakesWhatWaitsForIt(t *testing.T) {
	l, b := begin(t)
	connect(t, l, b, "n1")
	submitSpec(t, b, &pb.JobSpec{})
	submitSpec(t, b, &pb.JobSpec{Dependency: "after:1"})
	woken(l.freedWake)
	plan(t, l)
	if !woken(l.freedWake) {
		t.Error("a job that waited for a start is not planned")
	}
}

// TestNewLimitIsTold: once to each session, and again when it is another.
func TestNewLimitIsTold(t *testing.T) {
	l, b := begin(t)
	s := connect(t, l, b, "n1")
	id := submit(t, b)
	plan(t, l)
	dispatch(l)
	orders(s)
	alloc := &pb.AllocId{Job: id, Epoch: 1}
	say(t, l.Ready(context.Background(), s, &pb.AllocReady{Alloc: alloc}))
	commit(t, l)
	limit := func(seconds uint32) []*pb.ControllerMessage {
		b.must(t, state.UpdateJobs{Targets: []state.Target{{Job: id}}, Privileged: true, Change: state.JobChange{TimeLimitS: &seconds}})
		dispatch(l)
		l.Sweep()
		dispatch(l)
		return slices.DeleteFunc(orders(s), func(m *pb.ControllerMessage) bool { return m.GetKeepImages() != nil })
	}
	for _, seconds := range []uint32{600, 600, 60} {
		told := limit(seconds)
		if seconds == 600 && len(told) == 0 {
			continue // the second time
		}
		if len(told) != 1 || told[0].GetSetTimeLimit().GetTimeLimitS() != seconds || told[0].GetSetTimeLimit().GetAlloc().GetJob() != id {
			t.Errorf("%d s: told %v", seconds, told)
		}
	}
	again := connect(t, l, b, "n1", &pb.RunningAlloc{Alloc: alloc, Ready: true})
	dispatch(l)
	if told := orders(again); len(told) != 1 || told[0].GetSetTimeLimit().GetTimeLimitS() != 60 {
		t.Errorf("a new session is told %v", told)
	}
}

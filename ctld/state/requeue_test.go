package state

import (
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// failOnce places a job and lets its supervisor die.
func failOnce(t *testing.T, s *State, id uint32) *Job {
	t.Helper()
	place := PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}, MemoryBytes: 1}}}}}
	if result := applyCommand(t, s, place, RequestID{}, 1); result.Starts[0].Dropped != "" {
		t.Fatalf("not started: %s", result.Starts[0].Dropped)
	}
	job, _ := s.View().Job(id)
	applyCommand(t, s, AllocsEnded{Reports: []AllocReport{{
		Job: id, Epoch: job.Epoch, Node: "n1", Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED, Detail: "killed",
	}}}, RequestID{}, 1)
	job, _ = s.View().Job(id)
	return job
}

// TestRequeuedTooOften: a job that always fails is held after five requeues,
// and gets five more when somebody releases it. A requeue that was asked for
// does not count.
func TestRequeuedTooOften(t *testing.T) {
	s := New()
	applyCommand(t, s, RegisterNode{Name: "n1", Inventory: Inventory{CPUs: 4, MemoryBytes: 1 << 30, BootID: "b"}}, RequestID{}, 1)
	id := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerNodeBytes: 1, Requeue: true}, &pb.Identity{Uid: 7})
	for range maxBatchRequeue {
		if job := failOnce(t, s, id); job.Phase != Waiting || job.Held != sched.NotHeld {
			t.Fatalf("after %d failures: phase %d, held %d", job.Failures, job.Phase, job.Held)
		}
	}
	job := failOnce(t, s, id)
	message := s.View().JobMessage(job, Overlay{Reason: "x", Detail: "y"}, JobDetail{})
	if job.Held != sched.HeldMaxRequeue || message.GetReason() != "JobHoldMaxRequeue" || message.GetPriority() != 0 ||
		!strings.Contains(message.GetReasonDetail(), "killed") || !strings.Contains(message.GetReasonDetail(), "gcontrol release") {
		t.Fatalf("after %d failures: held %d, %s: %s", job.Failures, job.Held, message.GetReason(), message.GetReasonDetail())
	}
	targets := []Target{{Job: id}}
	if result := applyCommand(t, s, ReleaseJobs{Targets: targets, UID: 7}, RequestID{}, 1); result.Jobs[0].Code != OK {
		t.Fatalf("its user cannot release it: %v", result.Jobs[0])
	}
	if job := failOnce(t, s, id); job.Held != sched.NotHeld || job.Failures != 1 {
		t.Fatalf("after the release: held %d, %d failures", job.Held, job.Failures)
	}
	for range 2 * maxBatchRequeue {
		applyCommand(t, s, PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}}}}}}, RequestID{}, 1)
		applyCommand(t, s, RequeueJobs{Targets: targets, UID: 7}, RequestID{}, 1)
		job, _ := s.View().Job(id)
		applyCommand(t, s, AllocsEnded{Reports: []AllocReport{{Job: id, Epoch: job.Epoch, Node: "n1", Cause: pb.EndCause_END_CAUSE_CANCELLED}}}, RequestID{}, 1)
	}
	if job, _ := s.View().Job(id); job.Held != sched.NotHeld || job.Failures != 1 || job.Phase != Waiting {
		t.Fatalf("after requeues that were asked for: held %d, %d failures, phase %d", job.Held, job.Failures, job.Phase)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestNeverRequeued: what was submitted with --no-requeue is refused to its
// owner and to administrators alike, with each kind of requeue, in each phase
// in which it would start a second time; and nothing else about it changes.
func TestNeverRequeued(t *testing.T) {
	ways := []RequeueJobs{{}, {Hold: true}, {Hold: true, SpecialExit: true}, {Incomplete: true}}
	asks := func(t *testing.T, s *State, id uint32, want Code, message string) {
		t.Helper()
		for _, way := range ways {
			for _, uid := range []uint32{7, 0} {
				way.Targets, way.UID, way.Privileged = []Target{{Job: id}}, uid, uid == 0
				before, _ := s.View().Job(id)
				result := applyCommand(t, s, way, RequestID{}, 1)
				after, _ := s.View().Job(id)
				code, text := want, message
				if before.Phase == Finished && way.Incomplete {
					code, text = AlreadyDone, textAlreadyOver
				}
				if got := result.Jobs[0]; got.Code != code || !strings.Contains(got.Message, text) {
					t.Fatalf("%+v: %d %q, not %d %q", way, got.Code, got.Message, code, text)
				}
				if after.Phase != before.Phase || after.End != before.End || after.Held != before.Held || after.Restarts != before.Restarts {
					t.Fatalf("%+v changed the job to %+v", way, after)
				}
			}
		}
	}
	s := New()
	applyCommand(t, s, RegisterNode{Name: "n1", Inventory: Inventory{CPUs: 4, MemoryBytes: 1 << 30, BootID: "b"}}, RequestID{}, 1)
	id := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerNodeBytes: 1}, &pb.Identity{Uid: 7})
	asks(t, s, id, AlreadyDone, textIsPending)
	applyCommand(t, s, PlaceJobs{Starts: []StartOrder{{Job: id, Partition: "main", Allocs: []AllocOrder{{Node: "n1", CPUs: []uint32{0}, MemoryBytes: 1}}}}}, RequestID{}, 1)
	asks(t, s, id, Disabled, textDisabled+": it was submitted with --no-requeue; gcontrol update JobId=1 Requeue=1")
	job, _ := s.View().Job(id)
	applyCommand(t, s, AllocsEnded{Reports: []AllocReport{{Job: id, Epoch: job.Epoch, Node: "n1", Cause: pb.EndCause_END_CAUSE_EXITED}}}, RequestID{}, 1)
	asks(t, s, id, Disabled, textDisabled+": it was submitted with --no-requeue: submit it again")
}

package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

func gpuNode(name string, gpus uint32) RegisterNode {
	inventory := Inventory{CPUs: 8, MemoryBytes: 8 << 30, BootID: "b"}
	for i := range gpus {
		inventory.Devices = append(inventory.Devices, Device{ID: name + string(rune('a'+i)), Index: i, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 1})
	}
	return RegisterNode{Name: name, Inventory: inventory}
}

// TestGPUsOfAJobSpread: a number of GPUs without a number of nodes takes as
// many nodes as it needs.
func TestGPUsOfAJobSpread(t *testing.T) {
	s := New()
	applyCommand(t, s, gpuNode("n1", 4), RequestID{}, 1)
	applyCommand(t, s, gpuNode("n2", 4), RequestID{}, 1)
	spec := &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerCpuBytes: 1 << 20, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 8}}}
	id := submitJob(t, s, spec, &pb.Identity{Uid: 7})
	snapshot := s.View().SchedSnapshot(1)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	if result := applyCommand(t, s, PlanToCommand(&snapshot, &plan), RequestID{}, 1); len(result.Starts) != 1 || result.Starts[0].Dropped != "" {
		t.Fatalf("starts: %+v, reasons %+v", result.Starts, plan.Reasons)
	}
	job, _ := s.View().Job(id)
	if len(job.Run.Allocs) != 2 || len(job.Run.Allocs[0].Devices) != 4 || len(job.Run.Allocs[1].Devices) != 4 {
		t.Fatalf("allocations: %+v", job.Run.Allocs)
	}
	spec.MaxNodes, spec.MinNodes = 1, 1
	waits := submitJob(t, s, spec, &pb.Identity{Uid: 7})
	snapshot = s.View().SchedSnapshot(1)
	if plan, _ = sched.Schedule(snapshot, sched.Memo{}); len(plan.Starts) != 0 || uint32(plan.Reasons[0].Job) != waits || plan.Reasons[0].Code != sched.ReasonPartitionConfig {
		t.Fatalf("eight GPUs of one node: %+v", plan)
	}
}

// TestReasonOfRootsJob: a job of root's whose partition no longer takes them
// says so.
func TestReasonOfRootsJob(t *testing.T) {
	s := New()
	applyCommand(t, s, gpuNode("n1", 0), RequestID{}, 1)
	site := *policy.Default()
	site.Partitions = []policy.Partition{site.Partitions[0]}
	site.Partitions[0].AllowRootJobs = true
	applyCommand(t, s, ApplyPolicy{Policy: site}, RequestID{}, 1)
	id := submitJob(t, s, &pb.JobSpec{Script: []byte("#!/bin/sh\n"), MemoryPerCpuBytes: 1}, &pb.Identity{Uid: 0})
	site.Partitions = []policy.Partition{site.Partitions[0]}
	site.Partitions[0].AllowRootJobs = false
	applyCommand(t, s, ApplyPolicy{Policy: site}, RequestID{}, 1)
	plan, _ := sched.Schedule(s.View().SchedSnapshot(1), sched.Memo{})
	if len(plan.Reasons) != 1 || uint32(plan.Reasons[0].Job) != id || plan.Reasons[0].Code != sched.ReasonAccountNotAllowed {
		t.Fatalf("plan: %+v", plan)
	}
}

// TestShapeOfIsThatOfTheJob: what is judged before a submission is what the
// scheduler sees after it.
func TestShapeOfIsThatOfTheJob(t *testing.T) {
	s := New()
	for _, spec := range []*pb.JobSpec{
		{},
		{Tasks: 4, TasksPerNode: 2, Constraint: "b&a&b", ExcludeNodes: "n[3,1]"},
		{MinNodes: 2, Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: 2, Model: "m"}}, Command: "/a/b"},
	} {
		spec.Script = []byte("#!/bin/sh\n")
		command, err := SubmitFromSpec(spec, &pb.Identity{Uid: 7})
		if err != nil {
			t.Fatal(err)
		}
		before, err := ShapeOf(s.policy, &command)
		if err != nil {
			t.Fatal(err)
		}
		id := applyCommand(t, s, command, RequestID{}, 1).JobID
		job, _ := s.View().Job(id)
		if before.Digest() != job.Spec.shape.Digest() || before.Digest() == (Digest{}) {
			t.Errorf("%v: judged as %+v, stored as %+v", spec, before, job.Spec.shape)
		}
	}
	if _, err := ShapeOf(s.policy, &SubmitJob{Spec: Spec{Partitions: []string{"nope"}}, Owner: Owner{UID: 7}}); err == nil {
		t.Error("an unknown partition has a shape")
	}
}

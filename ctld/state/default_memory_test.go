package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestDefaultMemory: what a job that names no memory gets, by its partition and
// then by the site, as DefMemPerCPU and DefMemPerGPU say.
func TestDefaultMemory(t *testing.T) {
	const mib = uint64(1 << 20)
	gpus := func(scope pb.GpuScope) []*pb.GpuRequest { return []*pb.GpuRequest{{Scope: scope, Count: 2}} }
	plain, perJob, perNode, perTask := &pb.JobSpec{}, &pb.JobSpec{Gpus: gpus(pb.GpuScope_GPU_SCOPE_JOB)}, &pb.JobSpec{Gpus: gpus(pb.GpuScope_GPU_SCOPE_NODE)}, &pb.JobSpec{Tasks: 2, Gpus: gpus(pb.GpuScope_GPU_SCOPE_TASK)}
	type memory struct{ node, cpu, gpu uint64 }
	for name, test := range map[string]struct {
		site, partition policy.DefaultMemory
		asked           *pb.JobSpec
		want            memory
	}{
		"nowhere":                          {policy.DefaultMemory{}, policy.DefaultMemory{}, plain, memory{}},
		"the partition's":                  {policy.DefaultMemory{PerCPU: 2 * mib}, policy.DefaultMemory{PerCPU: mib}, plain, memory{cpu: mib}},
		"the site's":                       {policy.DefaultMemory{PerCPU: 2 * mib}, policy.DefaultMemory{}, plain, memory{cpu: 2 * mib}},
		"by GPUs, and it has none":         {policy.DefaultMemory{PerGPU: 2 * mib}, policy.DefaultMemory{PerGPU: mib}, plain, memory{}},
		"by GPUs before CPUs":              {policy.DefaultMemory{}, policy.DefaultMemory{PerCPU: mib, PerGPU: 3 * mib}, perJob, memory{gpu: 3 * mib}},
		"the site's by GPUs":               {policy.DefaultMemory{PerGPU: 4 * mib}, policy.DefaultMemory{PerCPU: mib}, perNode, memory{gpu: 4 * mib}},
		"by tasks":                         {policy.DefaultMemory{PerGPU: 4 * mib}, policy.DefaultMemory{PerGPU: mib}, perTask, memory{gpu: mib}},
		"as many GPUs as tasks need":       {policy.DefaultMemory{PerGPU: 4 * mib}, policy.DefaultMemory{}, &pb.JobSpec{Tasks: 2, TasksPerGpu: 1}, memory{gpu: 4 * mib}},
		"GPUs where only CPUs have one":    {policy.DefaultMemory{PerCPU: 2 * mib}, policy.DefaultMemory{}, perJob, memory{cpu: 2 * mib}},
		"it says how much":                 {policy.DefaultMemory{PerCPU: 2 * mib, PerGPU: mib}, policy.DefaultMemory{}, &pb.JobSpec{MemoryPerNodeBytes: 9 * mib, Gpus: perJob.Gpus}, memory{node: 9 * mib}},
		"it says that it wants the memory": {policy.DefaultMemory{PerCPU: 2 * mib, PerGPU: mib}, policy.DefaultMemory{}, &pb.JobSpec{AllMemory: true, Gpus: perJob.Gpus}, memory{}},
	} {
		s := New()
		site := policy.Message(policy.Default())
		site.DefaultMemoryPerCpuBytes, site.DefaultMemoryPerGpuBytes = test.site.PerCPU, test.site.PerGPU
		site.Partitions[0].DefaultMemoryPerCpuBytes, site.Partitions[0].DefaultMemoryPerGpuBytes = test.partition.PerCPU, test.partition.PerGPU
		applyCommand(t, s, ApplyPolicy{Policy: *policy.FromMessage(site)}, RequestID{}, 1)
		applyCommand(t, s, gpuNode("n1", 4), RequestID{}, 1)
		test.asked.Script = []byte("#!/bin/sh\n")
		id := submitJob(t, s, test.asked, &pb.Identity{Uid: 7})
		job, _ := s.View().Job(id)
		if got := (memory{job.Spec.MemoryPerNode, job.Spec.MemoryPerCPU, job.Spec.MemoryPerGPU}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

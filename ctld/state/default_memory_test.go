package state

import (
	"testing"

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
		site, partition DefaultMemory
		asked           *pb.JobSpec
		want            memory
	}{
		"nowhere":                          {DefaultMemory{}, DefaultMemory{}, plain, memory{}},
		"the partition's":                  {DefaultMemory{PerCPU: 2 * mib}, DefaultMemory{PerCPU: mib}, plain, memory{cpu: mib}},
		"the site's":                       {DefaultMemory{PerCPU: 2 * mib}, DefaultMemory{}, plain, memory{cpu: 2 * mib}},
		"by GPUs, and it has none":         {DefaultMemory{PerGPU: 2 * mib}, DefaultMemory{PerGPU: mib}, plain, memory{}},
		"by GPUs before CPUs":              {DefaultMemory{}, DefaultMemory{PerCPU: mib, PerGPU: 3 * mib}, perJob, memory{gpu: 3 * mib}},
		"the site's by GPUs":               {DefaultMemory{PerGPU: 4 * mib}, DefaultMemory{PerCPU: mib}, perNode, memory{gpu: 4 * mib}},
		"by tasks":                         {DefaultMemory{PerGPU: 4 * mib}, DefaultMemory{PerGPU: mib}, perTask, memory{gpu: mib}},
		"as many GPUs as tasks need":       {DefaultMemory{PerGPU: 4 * mib}, DefaultMemory{}, &pb.JobSpec{Tasks: 2, TasksPerGpu: 1}, memory{gpu: 4 * mib}},
		"GPUs where only CPUs have one":    {DefaultMemory{PerCPU: 2 * mib}, DefaultMemory{}, perJob, memory{cpu: 2 * mib}},
		"it says how much":                 {DefaultMemory{PerCPU: 2 * mib, PerGPU: mib}, DefaultMemory{}, &pb.JobSpec{MemoryPerNodeBytes: 9 * mib, Gpus: perJob.Gpus}, memory{node: 9 * mib}},
		"it says that it wants the memory": {DefaultMemory{PerCPU: 2 * mib, PerGPU: mib}, DefaultMemory{}, &pb.JobSpec{AllMemory: true, Gpus: perJob.Gpus}, memory{}},
	} {
		s := New()
		policy := PolicyMessage(DefaultPolicy())
		policy.DefaultMemoryPerCpuBytes, policy.DefaultMemoryPerGpuBytes = test.site.PerCPU, test.site.PerGPU
		policy.Partitions[0].DefaultMemoryPerCpuBytes, policy.Partitions[0].DefaultMemoryPerGpuBytes = test.partition.PerCPU, test.partition.PerGPU
		applyCommand(t, s, ApplyPolicy{Policy: *PolicyFromMessage(policy)}, RequestID{}, 1)
		applyCommand(t, s, gpuNode("n1", 4), RequestID{}, 1)
		test.asked.Script = []byte("#!/bin/sh\n")
		id := submitJob(t, s, test.asked, &pb.Identity{Uid: 7})
		job, _ := s.View().Job(id)
		if got := (memory{job.Spec.MemoryPerNode, job.Spec.MemoryPerCPU, job.Spec.MemoryPerGPU}); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

package policy

import (
	"cmp"
	"strconv"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the memory of jobs that request none: DefMemPerCPU and
// DefMemPerGPU in slurm.conf(5), of the site and of each partition.

// DefaultMemory is what a job gets for each of its CPUs, or for each of its
// GPUs, in bytes; 0 = the site's value, and for the site none.
type DefaultMemory struct {
	PerCPU uint64 `cbor:"1,keyasint,omitempty"`
	PerGPU uint64 `cbor:"2,keyasint,omitempty"`
}

// DefaultMemoryOf is what is in force in a partition.
func (p *Policy) DefaultMemoryOf(partition *Partition) DefaultMemory {
	return DefaultMemory{
		PerCPU: cmp.Or(partition.DefaultMemoryPerCPU, p.DefaultMemory.PerCPU),
		PerGPU: cmp.Or(partition.DefaultMemoryPerGPU, p.DefaultMemory.PerGPU),
	}
}

// settings are the two as gcontrol apply shows them.
func (d DefaultMemory) settings() []setting {
	size := func(bytes uint64) string {
		if bytes == 0 {
			return ""
		}
		return spec.FormatSize(bytes)
	}
	return []setting{{"default_memory_per_cpu", size(d.PerCPU)}, {"default_memory_per_gpu", size(d.PerGPU)}}
}

func megabytes(bytes uint64) string { return strconv.FormatUint(bytes>>20, 10) }

// Entries are the two as "gcontrol show config" has them, in Slurm's words.
func (d DefaultMemory) Entries() []*pb.ConfigEntry {
	perCPU := &pb.ConfigEntry{Key: "DefMemPerNode", Value: "UNLIMITED"}
	if d.PerCPU > 0 {
		perCPU = &pb.ConfigEntry{Key: "DefMemPerCPU", Value: megabytes(d.PerCPU)}
	}
	defaults := &pb.ConfigEntry{Key: "JobDefaults", Value: "(null)"}
	if d.PerGPU > 0 {
		defaults.Value = "DefMemPerGPU=" + megabytes(d.PerGPU)
	}
	return []*pb.ConfigEntry{perCPU, defaults}
}

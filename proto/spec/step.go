package spec

import (
	"slices"
	"strings"
	"unicode"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// StepPart is what a node says of a step. The job's user can make it say anything, so no
// number is taken that cannot be, and no name that a terminal would obey.
func StepPart(r *step.Record) *pb.StepPart {
	part := &pb.StepPart{
		Step: r.Step, Name: stepName(r.Name), Tasks: tasksIn(r.Tasks), Cpus: tasksIn(r.CPUs), Gpus: tasksIn(r.GPUs),
		StartMs: max(r.StartMS, 0), EndMs: max(r.EndMS, 0), ExitCode: uint32(r.Code) & 0xff, ExitSignal: uint32(r.Signal) & 0x7f,
		UserUs: amount(r.Sum.UserUS), SystemUs: amount(r.Sum.SystemUS), LeastCpuUs: amount(r.LeastUS), LeastRank: r.LeastRank,
		PeakMemoryBytes: amount(r.Most.MemoryKiB) << 10, PeakRank: r.MostRank.Memory, SumMemoryBytes: amount(r.Sum.MemoryKiB) << 10,
		ReadBytes: amount(r.Sum.ReadBytes), MostReadBytes: amount(r.Most.ReadBytes), MostReadRank: r.MostRank.Read,
		WrittenBytes: amount(r.Sum.WrittenBytes), MostWrittenBytes: amount(r.Most.WrittenBytes), MostWrittenRank: r.MostRank.Written,
		SumVirtualBytes: amount(r.Sum.VirtualKiB) << 10, PeakVirtualBytes: amount(r.Most.VirtualKiB) << 10, PeakVirtualRank: r.MostRank.Virtual,
	}
	for _, pid := range r.Pids {
		part.Pids = append(part.Pids, int32(pid))
	}
	if len(r.LocalIDs) == len(r.Pids) && len(r.GlobalIDs) == len(r.Pids) {
		part.LocalIds, part.GlobalIds = slices.Clone(r.LocalIDs), slices.Clone(r.GlobalIDs)
	}
	return part
}

func stepName(text string) string {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	return strings.ToValidUTF8(clean[:min(len(clean), step.MaxRecordName)], "")
}

// maxStepAmount keeps sums of what jobs say from overflowing.
const maxStepAmount = 1 << 50

func amount(n int64) uint64 { return uint64(min(max(n, 0), maxStepAmount)) }

func tasksIn(n int) uint32 { return uint32(min(max(n, 0), maxStepTasks)) }

const maxStepTasks = 1 << 20

package bundle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// MaxSteps is how many steps of an allocation are told one by one: the last ones. It keeps
// what a job puts into the controllers' log below a hundred kilobytes.
const MaxSteps = 1000

// maxStepLine bounds a line of process 1's file.
const maxStepLine = 4096

// ReadSteps answers what process 1 has noted of its steps; nil if it had none. The job's
// user can write that file too, so it decides nothing.
func ReadSteps(run string) *pb.NodeSteps {
	data, err := ReadRegular(filepath.Join(run, pid1.StepsFile), pid1.MaxStepsFile)
	if err != nil || len(data) == 0 {
		return nil
	}
	return parseSteps(bytes.NewReader(data))
}

// parseSteps reads lines. The line of an end replaces that of the beginning.
func parseSteps(from io.Reader) *pb.NodeSteps {
	steps := &pb.NodeSteps{}
	var open []*pb.StepPart // in the order in which they began
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, maxStepLine), maxStepLine)
	for lines.Scan() {
		var record pid1.StepRecord
		if json.Unmarshal(lines.Bytes(), &record) != nil {
			continue // the last one, when process 1 was killed
		}
		part := stepMessage(&record)
		if part.EndMs == 0 {
			if len(open) < MaxSteps {
				open = append(open, part)
			}
			continue
		}
		open = slices.DeleteFunc(open, func(begun *pb.StepPart) bool { return begun.Step == part.Step })
		steps.Steps = append(steps.Steps, part)
		if len(steps.Steps) >= 2*MaxSteps {
			omit(steps)
		}
	}
	steps.Steps = append(steps.Steps, open...)
	omit(steps)
	if len(steps.Steps) == 0 {
		return nil
	}
	return steps
}

// omit leaves the last ones.
func omit(steps *pb.NodeSteps) {
	if more := len(steps.Steps) - MaxSteps; more > 0 {
		steps.Steps, steps.Omitted = slices.Delete(steps.Steps, 0, more), steps.Omitted+uint32(more)
	}
}

// stepMessage takes no number that cannot be.
func stepMessage(r *pid1.StepRecord) *pb.StepPart {
	name := Clip(r.Name)
	return &pb.StepPart{
		Step: r.Step, Name: strings.ToValidUTF8(name[:min(len(name), pid1.MaxStepName)], ""), Tasks: count(r.Tasks), Cpus: count(r.CPUs), Gpus: count(r.GPUs), StartMs: max(r.StartMS, 0), EndMs: max(r.EndMS, 0),
		ExitCode: uint32(r.Code) & 0xff, ExitSignal: uint32(r.Signal) & 0x7f,
		UserUs: amount(r.UserUS), SystemUs: amount(r.SystemUS), LeastCpuUs: amount(r.LeastUS), LeastRank: r.LeastRank,
		PeakMemoryBytes: amount(r.PeakKiB) << 10, PeakRank: r.PeakRank, SumMemoryBytes: amount(r.SumKiB) << 10,
		ReadBytes: amount(r.ReadBytes), WrittenBytes: amount(r.WriteBytes),
	}
}

func count(n int) uint32 { return uint32(min(max(n, 0), grant.MaxStepTasks)) }

// maxAmount keeps sums of what jobs wrote from overflowing.
const maxAmount = 1 << 50

func amount(n int64) uint64 { return uint64(min(max(n, 0), maxAmount)) }

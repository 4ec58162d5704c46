package bundle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"slices"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
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
		var record step.Record
		if json.Unmarshal(lines.Bytes(), &record) != nil {
			continue // the last one, when process 1 was killed
		}
		part := spec.StepPart(&record)
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

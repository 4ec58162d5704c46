package state

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestStepsOfARunAreBounded: whatever nodes tell, a run's record stays small, and the
// steps that are not kept are counted.
func TestStepsOfARunAreBounded(t *testing.T) {
	many := &pb.NodeSteps{}
	for i := range uint32(3 * bounds.MaxSteps) {
		many.Steps = append(many.Steps, &pb.StepPart{Step: i, Name: "\xff" + string(make([]byte, 2*bounds.MaxNameBytes)), StartMs: 1_700_000_000_000})
	}
	small := stepsFromMessage(&pb.NodeSteps{Steps: []*pb.StepPart{{Step: 1, Name: "a"}}})
	job := &Job{Run: &Run{Allocs: []Alloc{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}}}
	for i, told := range [][]byte{small, stepsFromMessage(many), small} {
		job.keepSteps(&job.Run.Allocs[i], told)
	}
	steps := job.Run.steps()
	if len(steps) != 3 || len(steps[0].Steps) != 1 || len(steps[1].Steps) != 0 || steps[1].Omitted != 3*bounds.MaxSteps || steps[2].Node != "n3" || len(steps[2].Steps) != 1 {
		t.Errorf("%v", steps)
	}
	bytes := 0
	for _, node := range steps {
		bytes += proto.Size(node)
	}
	if bytes > bounds.MaxStepsBytes {
		t.Errorf("%d bytes", bytes)
	}
	if over := job.withoutSteps(); over == job || len(over.Run.steps()) != 0 || len(job.Run.steps()) != 3 {
		t.Error("history has them, and the record keeps them or the former one lost them")
	}
	if stepsFromMessage(nil) != nil || stepsFromMessage(&pb.NodeSteps{}) != nil {
		t.Error("a node without steps costs something")
	}
}

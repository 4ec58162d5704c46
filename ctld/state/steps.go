package state

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file carries what nodes tell of the steps of a run to history. A node tells it once,
// with the end of its allocation, so a job with ten thousand steps costs the log one entry
// of bounded size for each of its nodes. Nothing here depends on what it says.

// stepsFromMessage is what of a node's steps is kept; nil = it had none.
func stepsFromMessage(message *pb.NodeSteps) []byte {
	if message == nil || len(message.GetSteps()) == 0 && message.GetOmitted() == 0 {
		return nil
	}
	kept := &pb.NodeSteps{Omitted: message.GetOmitted(), Steps: message.GetSteps()}
	if more := len(kept.Steps) - bounds.MaxSteps; more > 0 {
		kept.Steps, kept.Omitted = kept.Steps[more:], kept.Omitted+uint32(more)
	}
	for _, part := range kept.Steps {
		part.Name = bounds.Clip(strings.ToValidUTF8(part.GetName(), "?"), bounds.MaxNameBytes)
	}
	return mustMarshal(kept)
}

func mustMarshal(message proto.Message) []byte {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		panic(fmt.Sprintf("ctld/state: what was read cannot be written: %v", err))
	}
	return bytes
}

// keepSteps notes what a node has told. Beyond the bound of a run only their number is
// kept.
func (j *Job) keepSteps(alloc *Alloc, told []byte) {
	bytes := len(told)
	for i := range j.Run.Allocs {
		bytes += len(j.Run.Allocs[i].Steps)
	}
	if bytes > bounds.MaxStepsBytes {
		var message pb.NodeSteps
		if proto.Unmarshal(told, &message) != nil {
			return
		}
		told = mustMarshal(&pb.NodeSteps{Omitted: message.Omitted + uint32(len(message.Steps))})
	}
	alloc.Steps = told
}

// steps are those of a run, in the order of its allocation.
func (r *Run) steps() []*pb.NodeSteps {
	var all []*pb.NodeSteps
	for i := range r.Allocs {
		alloc := &r.Allocs[i]
		message := &pb.NodeSteps{}
		if alloc.Steps == nil || proto.Unmarshal(alloc.Steps, message) != nil {
			continue
		}
		message.Node = alloc.Node
		all = append(all, message)
	}
	return all
}

// withoutSteps is a job whose steps history has.
func (j *Job) withoutSteps() *Job {
	if j.Run == nil {
		return j
	}
	next := j
	for i := range j.Run.Allocs {
		if j.Run.Allocs[i].Steps == nil {
			continue
		}
		if next == j {
			next, _ = j.withAlloc(j.Run.Allocs[i].Node)
		}
		next.Run.Allocs[i].Steps = nil
	}
	return next
}

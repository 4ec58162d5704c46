package acct

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// TestSlurmKeys: a job and its steps have all that Slurm's have.
func TestSlurmKeys(t *testing.T) {
	view := show.NewView(func(string) string { return "" }, clienttest.StubNow)
	var records []any
	for _, job := range clienttest.StubJobs() {
		run := &pb.PastRun{Job: job, Steps: []*pb.NodeSteps{{Node: "n1", Steps: []*pb.StepPart{
			{Step: step.BatchStep, Name: "batch", Tasks: 1, Cpus: 2, StartMs: job.StartMs}, {Step: 0, Name: "a", Tasks: 2, Cpus: 2, Gpus: 1, StartMs: job.StartMs, EndMs: job.StartMs + 1},
		}}}}
		records = append(records, recordOf(show.JSONCurrent, view, run))
	}
	clienttest.Keys(t, "testdata/job.keys", records...)
}

package stat

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

func TestMain(m *testing.M) { clienttest.Patient(m) }

// stage runs command lines of this command.
var stage = clienttest.Of(Command())

// visit plays one node: what it has measured itself, and the steps that process 1 has.
func visit(t *testing.T, measured *pb.NodeSteps, steps ...step.Record) clienttest.OutputVisit {
	t.Helper()
	var answer bytes.Buffer
	if err := step.Write(&answer, &step.StepList{Steps: steps}); err != nil {
		t.Fatal(err)
	}
	send := []*pb.TunnelMessage{{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{}}}}
	if measured != nil {
		send = append(send, &pb.TunnelMessage{What: &pb.TunnelMessage_Measured{Measured: measured}})
	}
	return clienttest.OutputVisit{Question: true, Send: append(send, &pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: answer.Bytes()}})}
}

// The use of GPUs is that which the node has measured: process 1 knows nothing of it.
func TestGPUs(t *testing.T) {
	records := []step.Record{
		{Step: 0, Name: "train", Tasks: 2, StartMS: 5, Sum: step.Use{UserUS: 8e6, MemoryKiB: 300}, Most: step.Use{MemoryKiB: 200}, Pids: []int{7, 8}},
		{Step: 1, Name: "other", Tasks: 1, StartMS: 6},
		{Step: step.BatchStep, Name: "batch", Tasks: 1, StartMS: 4},
	}
	measured := &pb.NodeSteps{Steps: []*pb.StepPart{
		{Step: 0, GpuSamples: 4, SumGpuPercent: 480, MostGpuPercent: 190, PeakGpuMemoryBytes: 6 << 30, GpuPercent: 90, GpuMemoryBytes: 500 << 20},
		{Step: step.BatchStep, GpuSamples: 4, SumGpuPercent: 500, MostGpuPercent: 195, PeakGpuMemoryBytes: 7 << 30, GpuPercent: 95, GpuMemoryBytes: 600 << 20},
	}}
	line := "gstat -a -n -P -j 101 -o JobID,TRESUsageInTot,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode"
	for name, c := range map[string]struct {
		measured *pb.NodeSteps
		want     string
	}{
		"measured": {measured, `101.0|cpu=00:00:08,gres/gpumem=500M,gres/gpuutil=90,mem=300K|cpu=00:00:04,gres/gpumem=250M,gres/gpuutil=45,mem=150K|gres/gpumem=6G,gres/gpuutil=190,mem=200K|gres/gpumem=n1,gres/gpuutil=n1,mem=n1
101.1|cpu=00:00:00,mem=0|cpu=00:00:00,mem=0|mem=0|mem=n1
101.batch|cpu=00:00:00,gres/gpumem=600M,gres/gpuutil=95,mem=0|cpu=00:00:00,gres/gpumem=600M,gres/gpuutil=95,mem=0|gres/gpumem=7G,gres/gpuutil=195,mem=0|gres/gpumem=n1,gres/gpuutil=n1,mem=n1
`},
		"an older node": {nil, `101.0|cpu=00:00:08,mem=300K|cpu=00:00:04,mem=150K|mem=200K|mem=n1
101.1|cpu=00:00:00,mem=0|cpu=00:00:00,mem=0|mem=0|mem=n1
101.batch|cpu=00:00:00,mem=0|cpu=00:00:00,mem=0|mem=0|mem=n1
`},
	} {
		stub := &clienttest.StubController{Jobs: []*pb.Job{{
			Id: &pb.JobId{Job: 101}, Spec: &pb.JobSpec{}, Owner: clienttest.Ada, State: pb.JobState_JOB_STATE_RUNNING, StartMs: 4,
			Allocation: []*pb.NodeAllocation{{Node: "n1"}},
		}}}
		clienttest.ServeStub(t, stub)
		run := func(line string) clienttest.Outcome {
			stub.Outputs = []clienttest.OutputVisit{visit(t, c.measured, records...)}
			return stage.Command(t, os.Getenv("GLEANER_CONTROLLER"), "", nil, strings.Fields(line)...)
		}
		if got := run(line); got.Stdout != c.want || got.Stderr != "" {
			t.Errorf("%s:\n%s%s\nwant:\n%s", name, got.Stdout, got.Stderr, c.want)
		}
		if asked := stub.Writes[0].(*pb.Attach); !asked.GetUse() || asked.GetNode() != "n1" {
			t.Errorf("%s: asked %v", name, asked)
		}
		use := `"gpu_use": null`
		if c.measured != nil {
			use = `"mean_percent": 120,`
		}
		if got := run("gstat --json -a -j 101"); !strings.Contains(got.Stdout, use) {
			t.Errorf("%s: %s lacks %s", name, got.Stdout, use)
		}
	}
}

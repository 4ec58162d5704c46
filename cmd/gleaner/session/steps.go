package session

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// stepsAtOnce bounds the nodes that are asked at once.
const stepsAtOnce = 16

// Steps asks the nodes of a running job which steps run there, and what they use. Only the
// user of the job, and root, are answered.
func Steps(ctx context.Context, c *client.Client, job *pb.Job) (answers []*pb.NodeSteps, err error) {
	err = c.Persist(ctx, c.Limits.Question, func(ctx context.Context, _ time.Duration) (err error) {
		answers, err = askAll(ctx, c, job)
		return err
	})
	return answers, err
}

func askAll(ctx context.Context, c *client.Client, job *pb.Job) ([]*pb.NodeSteps, error) {
	nodes := job.GetAllocation()
	answers := make([]*pb.NodeSteps, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(stepsAtOnce)
	for i, node := range nodes {
		group.Go(func() error {
			records, measured, err := stepsOn(ctx, c, job.GetId(), node.GetNode())
			answers[i] = &pb.NodeSteps{Node: node.GetNode()}
			for j := range records {
				part := spec.StepPart(&records[j])
				addMeasured(part, measured)
				answers[i].Steps = append(answers[i].Steps, part)
			}
			return err
		})
	}
	return answers, group.Wait()
}

// stepsOn asks process 1 of a job on one node, and the node for what it has measured itself.
func stepsOn(ctx context.Context, c *client.Client, job *pb.JobId, node string) ([]step.Record, *pb.NodeSteps, error) {
	stream, _, err := openSession(ctx, c, &pb.Attach{Job: job, Node: node, Use: true})
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	late := time.AfterFunc(attachTime, func() { _ = stream.Close() })
	defer late.Stop()
	records, err := step.NewAttachment(stream).Steps()
	return records, stream.measured, err
}

// addMeasured adds to a step what its node has measured of it.
func addMeasured(part *pb.StepPart, measured *pb.NodeSteps) {
	for _, of := range measured.GetSteps() {
		if of.GetStep() == part.GetStep() {
			part.GpuSamples, part.SumGpuPercent, part.MostGpuPercent, part.PeakGpuMemoryBytes = of.GetGpuSamples(), of.GetSumGpuPercent(), of.GetMostGpuPercent(), of.GetPeakGpuMemoryBytes()
			part.GpuPercent, part.GpuMemoryBytes = of.GetGpuPercent(), of.GetGpuMemoryBytes()
		}
	}
}

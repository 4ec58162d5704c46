package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// askEvery is how often it is asked whether a job waits for a file of this host.
const askEvery = 500 * time.Millisecond

// sendFiles copies the files of this host that the job waits for, by gcp.
func sendFiles(inv *option.Invocation, controller *client.Client, job uint32, staging []*pb.Staging) error {
	for _, s := range staging {
		one := spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut()}
		_, file, is := one.Here()
		if !is || one.Out {
			continue
		}
		there := fmt.Sprintf("%d:%s%s", job, one.HereTarget(), spec.HereSuffix)
		err := awaitCall(inv.Context, controller, job, file)
		if err == nil {
			err = sendFile(inv, file, there)
		}
		switch {
		case inv.Context.Err() != nil:
			return option.Fail(console.Interrupted, "interrupted: job %d waits for %s; type gcp %s %s", job, file, file, there)
		case err != nil:
			return option.Fail(1, "job %d is submitted, and %s did not come there: %w: gcontrol show job %d says what it waits for", job, file, err, job)
		}
	}
	return nil
}

// awaitCall waits until the job says that it waits for a file. A controller that does not
// answer is asked again.
func awaitCall(ctx context.Context, controller *client.Client, id uint32, file string) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		job, err := look(ctx, controller, id)
		switch {
		case err != nil:
		case job == nil || show.Ended(job):
			return errors.New("it is over")
		case strings.Contains(job.GetReasonDetail(), step.AwaitsHere+file+" "):
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// look answers a job, or nil if it is not known.
func look(ctx context.Context, controller *client.Client, id uint32) (*pb.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, client.AnswerTime)
	defer cancel()
	stream, err := controller.ListJobs(ctx, &pb.ListJobsRequest{Filter: &pb.JobFilter{Ids: []*pb.JobId{{Job: id}}, AllStates: true}})
	if err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case len(answer.GetJobs()) == 0:
		return nil, nil
	}
	return answer.Jobs[0], nil
}

// sendFile runs gcp, which goes on where it stopped.
func sendFile(inv *option.Invocation, file, there string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(inv.Context, program, "cp", "--quiet", file, there)
	cmd.Env, cmd.Stderr = inv.Environ, inv.Stderr
	return cmd.Run()
}

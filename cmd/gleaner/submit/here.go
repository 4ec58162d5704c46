package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// askEvery is how often it is asked whether a job waits for a file of this host, and runsEvery
// while it runs.
const (
	askEvery  = 500 * time.Millisecond
	runsEvery = 5 * time.Second
)

// sendFiles copies the files of this host that the job waits for, by gcp.
func sendFiles(inv *option.Invocation, controller *client.Client, job uint32, staging []*pb.Staging) error {
	for _, s := range staging {
		one := spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut()}
		_, file, is := one.Here()
		if !is || one.Out {
			continue
		}
		there := fmt.Sprintf("%d:%s%s", job, one.HereTarget(), spec.HereSuffix)
		err := awaitCall(inv.Context, controller, job, step.AwaitsHere+file+" ")
		if err == nil {
			err = runCopy(inv, file, there)
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

// fetchFiles copies the results of a job that go to this host, by gcp, once it is over and
// they wait for that.
func fetchFiles(inv *option.Invocation, controller *client.Client, job uint32, staging []*pb.Staging) error {
	for _, s := range staging {
		one := spec.Staging{Source: s.GetSource(), Target: s.GetTarget(), Out: s.GetOut()}
		_, file, is := one.Here()
		if !is || !one.Out {
			continue
		}
		there := fmt.Sprintf("%d:%s", job, one.Source)
		err := awaitCall(inv.Context, controller, job, step.AwaitsFetch+one.Source+": ")
		switch {
		case errors.Is(err, errOver): // waiting for it says how it ended
			return nil
		case err == nil:
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), runCopy(inv, "-r", there, file))
		}
		switch {
		case inv.Context.Err() != nil:
			return option.Fail(console.Interrupted, "no longer waiting for job %d, which continues; type gcp -r %s %s within a day after its end; gcancel %d ends it", job, there, file, job)
		case err != nil:
			return option.Fail(1, "%s of job %d did not come to %s: %w: type gcp -r %s %s within a day", one.Source, job, file, err, there, file)
		}
	}
	return nil
}

// errOver is returned for a job that will not wait for a file any more.
var errOver = errors.New("it is over")

// awaitCall waits until the job says that it waits for a file, in these words. A controller
// that does not answer is asked again.
func awaitCall(ctx context.Context, controller *client.Client, id uint32, words string) error {
	for {
		job, err := look(ctx, controller, id)
		pause := askEvery
		switch {
		case err != nil:
		case job == nil || show.Ended(job):
			return errOver
		case strings.Contains(job.GetReasonDetail(), words):
			return nil
		case job.GetState() == pb.JobState_JOB_STATE_RUNNING:
			pause = runsEvery
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
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

// runCopy runs gcp, which goes on where it stopped.
func runCopy(inv *option.Invocation, arguments ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(inv.Context, program, append([]string{"cp", "--quiet"}, arguments...)...)
	cmd.Env, cmd.Stderr = inv.Environ, inv.Stderr
	return cmd.Run()
}

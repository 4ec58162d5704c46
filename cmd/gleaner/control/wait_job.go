package control

import (
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// How often wait_job looks: soon at first.
const (
	firstWaitLook = 100 * time.Millisecond
	lastWaitLook  = 2 * time.Second
)

// controlWaitJob is "wait_job 12": until the job runs and its nodes are ready. It
// fails for a job that is over.
func controlWaitJob(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("wait_job")
	}
	if len(words) > 1 {
		return c.tooMany("wait_job")
	}
	targets, err := spec.ParseJobTargets(words[0])
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	if len(targets) != 1 || targets[0].HasTasks {
		return c.inv.Fail("Invalid job id: %s: name one job", words[0])
	}
	for pause := firstWaitLook; ; pause = min(pause*3/2, lastWaitLook) {
		job, err := c.one(targets[0].Job, false)
		switch {
		case err != nil:
			return client.LoadError(c.inv, client.LoadJobs, err)
		case job == nil:
			fmt.Fprintf(c.inv.Stderr, "%s: Invalid job id specified\n", client.LoadJobs)
			return option.Exit(1)
		case show.Finished(job):
			return c.inv.Fail("Job %d no longer running", targets[0].Job)
		case job.GetState() == pb.JobState_JOB_STATE_RUNNING && !job.GetConfiguring():
			return nil
		case c.inv.Context.Err() != nil:
			return c.inv.Context.Err()
		}
		client.Pause(c.inv.Context, pause)
	}
}

// one is a job by its number, with its script if the caller asks for that and may read it;
// nil if none is known.
func (c *controlRun) one(number uint32, withScript bool) (*pb.Job, error) {
	var found *pb.Job
	request := &pb.ListJobsRequest{WithScript: withScript, Filter: &pb.JobFilter{AllStates: true, Ids: []*pb.JobId{{Job: number}}}}
	err := client.List(c.inv.Context, c.client, c.client.ListJobs, request, client.Shown, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.Jobs {
			found = job
		}
		return nil
	})
	return found, err
}

package control

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/steps"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// showStep shows the steps that run: of one's own jobs, of a job, or one of them.
func showStep(c *controlRun, id string) error {
	if c.json != show.JSONNone {
		return c.inv.Fail("show step has no JSON: gstat --allsteps --json --jobs=JOB has")
	}
	var targets steps.Targets
	filter := &pb.JobFilter{}
	if id != "" {
		var err error
		if targets, err = steps.Parse(id); err != nil {
			return c.inv.Fail("%w", err)
		}
		filter.Ids = targets.Jobs()
	}
	steps.Own(filter)
	var jobs []*pb.Job
	restart := func() bool { jobs = nil; return true }
	err := client.List(c.inv.Context, c.client, c.client.ListJobs, &pb.ListJobsRequest{Filter: filter}, restart, func(answer *pb.ListJobsResponse) error {
		jobs = append(jobs, answer.GetJobs()...)
		return nil
	})
	if err != nil {
		return client.LoadError(c.inv, client.LoadJobs, err)
	}
	rows, err := steps.Ask(c.inv.Context, c.client, jobs, targets, c.view, func(text string) {
		fmt.Fprintf(c.inv.Stderr, "%s: %s\n", c.inv.Command.Program(), text)
	})
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, row := range rows {
		row.Record().Write(out, c.oneLine)
	}
	if len(rows) == 0 && id == "" {
		fmt.Fprintln(out, "No job steps in the system")
	}
	if err := out.Flush(); err != nil || len(rows) > 0 || id == "" {
		return err
	}
	return option.Fail(1, "Invalid job/step specified: no step %s runs", id)
}

package control

import (
	"bufio"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/steps"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// showStep shows the steps that run: of one's own jobs, of a job, or one of them.
func showStep(c *controlRun, id string) error {
	var targets steps.Targets
	filter := &pb.JobFilter{}
	if id != "" {
		var err error
		if targets, err = steps.Parse(id); err != nil {
			return err
		}
		filter.Ids = targets.Jobs()
	}
	jobs, err := c.jobsWithSteps(filter)
	switch {
	case status.Code(err) == codes.NotFound, err == nil && id != "" && len(jobs) == 0:
		return option.Fail(1, "scontrol_print_step: slurm_get_job_steps(%s) failed: Invalid job id specified", format.Printable(id))
	case err != nil:
		return client.LoadError(c.inv, client.LoadJobs, err)
	}
	rows, err := steps.Ask(c.inv.Context, c.client, jobs, targets, c.view, func(text string) {
		fmt.Fprintf(c.inv.Stderr, "%s: %s\n", c.inv.Command.Program(), text)
	})
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	slices.SortStableFunc(rows, func(a, b *steps.Row) int { // as scontrol does
		if a.Job != b.Job || a.IsBatch() == b.IsBatch() {
			return 0
		} else if a.IsBatch() {
			return -1
		}
		return 1
	})
	if c.json != show.JSONNone {
		records := make([]any, 0, len(rows))
		for _, row := range rows {
			c.view.Cluster = c.inv.ClusterName()
			records = append(records, row.JSON(c.json))
		}
		return show.WriteJSON(c.inv, c.json, "steps", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, row := range rows {
		row.Record().Write(out, c.oneLine)
	}
	if len(rows) == 0 && id == "" {
		fmt.Fprintln(out, "No job steps in the system")
	}
	if len(rows) == 0 && id != "" {
		fmt.Fprintf(out, "Job step %s not found\n", format.Printable(id))
	}
	if err := out.Flush(); err != nil || len(rows) > 0 || id == "" {
		return err
	}
	return option.Exit(1)
}

// jobsWithSteps lists the jobs of a filter; without one those that the caller may ask for
// their steps.
func (c *controlRun) jobsWithSteps(filter *pb.JobFilter) (jobs []*pb.Job, err error) {
	steps.Own(filter)
	restart := func() bool { jobs = nil; return true }
	err = client.List(c.inv.Context, c.client, c.client.ListJobs, &pb.ListJobsRequest{Filter: filter}, restart, func(answer *pb.ListJobsResponse) error {
		jobs = append(jobs, answer.GetJobs()...)
		return nil
	})
	return jobs, err
}

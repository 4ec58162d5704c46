package control

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func showJob(c *controlRun, id string) error {
	filter := &pb.JobFilter{AllStates: true}
	var targets show.JobTargets
	if id != "" {
		var err error
		if targets, err = spec.ParseJobTargets(id); err != nil {
			return c.inv.Fail("%w", err)
		}
		filter.Ids = targets.Ids()
	}
	out := bufio.NewWriterSize(c.inv.Stdout, 64<<10)
	var stream *show.JSONStream
	if c.json != show.JSONNone {
		stream = show.NewJSONStream(out, "jobs", c.json)
	}
	found := 0
	each := func(row *show.JobRow) error {
		found++
		if stream != nil {
			c.view.Cluster = c.inv.ClusterName()
			return stream.Add(c.json.Job(row))
		}
		show.JobRecordOf(row, c.details).Write(out, c.oneLine)
		return nil
	}
	err := client.List(c.inv.Context, c.client, c.client.ListJobs, &pb.ListJobsRequest{Filter: filter}, client.Shown, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.Jobs {
			tasks, wanted := targets.Match(job)
			if !wanted {
				continue
			}
			if err := show.JobRows(job, tasks, c.view, each); err != nil {
				return err
			}
		}
		return out.Flush()
	})
	switch {
	case err != nil:
		return client.LoadError(c.inv, client.LoadJobs, err)
	case found == 0 && id != "":
		fmt.Fprintf(c.inv.Stderr, "%s: Invalid job id specified\n", client.LoadJobs)
		return option.Exit(1)
	case stream != nil:
		if err := stream.End(c.inv); err != nil {
			return err
		}
	case found == 0:
		fmt.Fprintln(out, "No jobs in the system")
	}
	return out.Flush()
}

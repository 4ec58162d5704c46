package acct

import (
	"fmt"
	"io"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// noScript is what sacct prints in the place of a script that is not kept.
const noScript = "NONE\n"

// writeScripts prints the scripts of the jobs that are wanted, those that the controllers
// still remember: history has none.
func writeScripts(inv *option.Invocation, controllers *client.Client, view *show.View, wanted *choice) error {
	if len(wanted.targets) == 0 {
		return inv.Fail("name the jobs whose scripts you want with --jobs")
	}
	scripts := map[uint32][]byte{}
	restart := func() bool { clear(scripts); return true }
	request := &pb.ListJobsRequest{WithScript: true, Filter: &pb.JobFilter{AllStates: true, Ids: wanted.targets.Ids()}}
	err := client.List(inv.Context, controllers, controllers.ListJobs, request, restart, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.GetJobs() {
			scripts[job.GetId().GetJob()] = job.GetSpec().GetScript()
		}
		return nil
	})
	if err != nil {
		return client.LoadError(inv, client.LoadJobs, err)
	}
	wanted.jobs = true
	err = past.Ask(inv, controllers, view, wanted.request, func(run *pb.PastRun) error {
		if len(wanted.rows(run, view)) == 0 {
			return nil
		}
		job := run.GetJob()
		text := string(scripts[job.GetId().GetJob()])
		if text == "" {
			text = noScript
		}
		_, err := io.WriteString(inv.Stdout, fmt.Sprintf("Batch Script for %s\n%s\n%s\n", view.JobName(job), strings.Repeat("-", 80), text))
		return console.Output(err)
	})
	if err != nil {
		return past.Failed(inv, err)
	}
	return nil
}

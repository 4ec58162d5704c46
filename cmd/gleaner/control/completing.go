package control

import (
	"bufio"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// controlCompleting is "completing" (scontrol(1)): jobs that have ended while a node still
// cleans up after them, for how long it has, and on which nodes.
func controlCompleting(c *controlRun, words []string) error {
	if len(words) > 0 {
		return c.tooMany("completing")
	}
	out := bufio.NewWriter(c.inv.Stdout)
	request := &pb.ListJobsRequest{Filter: &pb.JobFilter{Completing: true}}
	err := client.List(c.inv.Context, c.client, c.client.ListJobs, request, client.Shown, func(answer *pb.ListJobsResponse) error {
		for _, job := range answer.GetJobs() {
			if !job.GetCompleting() {
				continue
			}
			took := uint32(0)
			if job.GetEndMs() != 0 {
				took = uint32(max(c.view.NowMS-job.GetEndMs(), 0) / 1000)
			}
			fmt.Fprintf(out, "JobId=%d EndTime=%s CompletingTime=%s Nodes(COMPLETING)=%s \n", // a blank at the end, as in scontrol
				job.GetId().GetJob(), c.view.Stamp(job.GetEndMs(), "Unknown"), show.Clock(took), format.Printable(job.GetNodeList()))
		}
		return out.Flush()
	})
	if err != nil {
		return client.LoadError(c.inv, client.LoadJobs, err)
	}
	return nil
}

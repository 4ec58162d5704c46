package submit

import (
	"cmp"
	"fmt"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// testOnly is --test-only: it has the job checked, and says when and where it would start,
// on standard error as sbatch does.
func testOnly(inv *option.Invocation, controller *client.Client, job *jobspec.Submission) error {
	answer, err := client.AskOne(inv.Context, controller, controller.TestSubmission, job.Request)
	if err != nil {
		if inv.Context.Err() != nil {
			return option.Exit(console.Interrupted)
		}
		return &option.Failure{Status: 1, Message: "allocation failure: " + client.Plain(err), Cause: err}
	}
	warn(inv, job, answer.GetWarnings())
	if !job.Values.Given(jobspec.OptQuiet) {
		fmt.Fprintf(inv.Stderr, "%s: %s\n", inv.Command.Program(), format.Printable(willStart(inv, answer)))
	}
	return nil
}

// willStart is sbatch's sentence about when and where a job would start, or why nobody
// knows.
func willStart(inv *option.Invocation, answer *pb.TestSubmissionResponse) string {
	start := answer.GetStart()
	if start.GetStartMs() == 0 {
		return fmt.Sprintf("Job %d would be accepted; when it would start is not known: %s", answer.GetJobId(), cmp.Or(answer.GetReasonDetail(), answer.GetReason(), "no plan is made now"))
	}
	at := show.NewView(inv.Getenv, console.Clock()).Stamp(start.GetStartMs(), "N/A")
	return fmt.Sprintf("Job %d to start at %s using %d processors on nodes %s in partition %s", answer.GetJobId(), at, start.GetCpus(), show.OrNull(start.GetNodeList()), start.GetPartition())
}

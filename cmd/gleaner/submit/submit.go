// Package submit is gsubmit, Slurm's sbatch: it sends what package jobspec makes of
// the command line, prints the job's number, and waits for its end with --wait.
//
// A number is printed only after a controller has accepted the job; where that is
// not known, the message says so.
package submit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// submit is gsubmit.
func submit(inv *option.Invocation) error {
	job, err := jobspec.New(inv)
	if err != nil {
		return err
	}
	warn(inv, job, job.Warnings)
	if err := jobspec.Pin(job.Request.Spec); err != nil {
		return err
	}
	controller, err := client.Connect(inv)
	if err != nil {
		return err
	}
	defer controller.Close()
	cluster, err := controller.Cluster(inv.Context, job.Values)
	if err != nil {
		return err
	}
	if job.Values.Given(jobspec.OptTestOnly) {
		return testOnly(inv, controller, job)
	}
	if job.Values.Given(jobspec.OptVerbose) {
		spec := job.Request.Spec
		fmt.Fprintf(inv.Stderr, "%s: sending %q with %d bytes of script and %d variables to %v\n", inv.Command.Program(),
			spec.Name, len(spec.Script), len(spec.Environment), controller.Targets)
	}
	answer, err := client.Call(inv.Context, controller, controller.Submit, job.Request)
	if inv.Context.Err() != nil && err != nil {
		return option.Fail(console.Interrupted, "interrupted before a controller answered: the job may have been accepted. Look with gqueue --me before you submit it again")
	}
	if err != nil {
		return submissionFailed(err)
	}
	warn(inv, job, answer.GetWarnings())
	if err := printNumber(inv, job, answer.GetJobId(), cluster); err != nil {
		return option.Fail(1, "job %d was submitted, but its number could not be printed: %w", answer.GetJobId(), err)
	}
	if err := sendFiles(inv, controller, answer.GetJobId(), job.Request.Spec.GetStaging()); err != nil {
		return err
	}
	if job.Values.Given(jobspec.OptWait) {
		if err := fetchFiles(inv, controller, answer.GetJobId(), job.Request.Spec.GetStaging()); err != nil {
			return err
		}
		return waitForJob(inv.Context, controller, answer.GetJobId())
	}
	return nil
}

// submissionFailed is sbatch's sentence about what the controller answered.
func submissionFailed(err error) error {
	message := "Batch job submission failed: " + client.Plain(err)
	if strings.HasPrefix(client.Plain(err), "invalid partition specified: ") {
		message = client.Plain(err) + "\nBatch job submission failed: Invalid partition name specified"
	}
	unreachable := (*client.UnreachableError)(nil)
	if errors.As(err, &unreachable) {
		message = "Batch job submission failed: " + err.Error()
		if unreachable.PerhapsDone {
			message += "\nThe connection broke before an answer came: the job may have been accepted. Look with gqueue --me before you submit it again"
		}
	}
	return &option.Failure{Status: 1, Message: message, Cause: err}
}

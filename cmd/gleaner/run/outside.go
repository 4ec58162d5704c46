package run

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// ofSession are grun's options that a session has; the others are for steps
// that are started from inside their job.
var ofSession = []string{
	optJobID, optPty, "overlap", "exact", jobspec.OptExclusive, "immediate", "disable-status", optUnbuffered, optOvercommit,
	jobspec.OptNtasks, jobspec.OptNodes, jobspec.OptCPUsPerTask, jobspec.OptChdir, jobspec.OptExport, jobspec.OptQuiet, jobspec.OptVerbose, optMPI, optCPUBind, option.Controller,
}

// wantsSession reports whether the step is one that process 1 of a job keeps,
// reached through the controllers: in a job other than this one's, or with a
// terminal.
func wantsSession(inv *option.Invocation) bool {
	if inv.Given(optPty) {
		return true
	}
	own := inv.Getenv("SLURM_JOB_ID")
	return inv.Given(optJobID) && (inv.Getenv("GLEANER_STEP_SOCKET") == "" || inv.Text(optJobID) != own)
}

// runSession is grun --jobid, from outside of the job.
func runSession(inv *option.Invocation) error {
	name := inv.Text(optJobID)
	if name == "" {
		name = inv.Getenv("SLURM_JOB_ID")
	}
	if name == "" {
		return fmt.Errorf("--pty needs a job that runs: name it with --jobid; interactive allocations are not supported")
	}
	job, err := client.OneJob(name)
	if err != nil {
		return err
	}
	for _, o := range inv.Command.Options {
		if inv.Given(o.Long) && !slices.Contains(ofSession, o.Long) {
			return option.Fail(1, "--%s is for steps that are started from inside their job: leave it out, or put the grun line into the job's script", o.Long)
		}
	}
	for _, long := range []string{jobspec.OptNtasks, jobspec.OptNodes} {
		if text := inv.Text(long); text != "" && text != "1" {
			return option.Fail(1, "--%s=%s: a step from outside of the job is one task, on the node of its batch script", long, text)
		}
	}
	if len(inv.Operands) == 0 && !inv.Given(optPty) {
		return option.Fail(1, "No command given to execute")
	}
	open, err := openOrder(inv)
	if err != nil {
		return err
	}
	return session.Begin(inv, job, name, open)
}

// openOrder is what process 1 is asked to start.
func openOrder(inv *option.Invocation) (*step.Open, error) {
	directory, err := os.Getwd()
	if err != nil {
		directory = "/"
	}
	if given := inv.Text(jobspec.OptChdir); given != "" {
		directory = inDirectory(directory, given)
	}
	umask, err := jobspec.FileMask("")
	if err != nil {
		return nil, err
	}
	exported, err := jobspec.StepEnvironment(inv.Environ, inv.Text(jobspec.OptExport))
	if err != nil {
		return nil, err
	}
	// What describes a job would be another job's.
	exported = slices.DeleteFunc(exported, func(entry string) bool {
		name := jobspec.NameOf(entry)
		return strings.HasPrefix(name, "SLURM") || strings.HasPrefix(name, "GLEANER_") || name == "CUDA_VISIBLE_DEVICES"
	})
	open := &step.Open{
		Name: uuid.NewString(), Client: uuid.NewString(),
		Argv: inv.Operands, Env: exported, Cwd: step.Bytes(directory), Umask: umask,
	}
	if inv.Given(optPty) {
		open.Window = session.Window()
	}
	return open, nil
}

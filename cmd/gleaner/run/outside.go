package run

import (
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
	optJobID, optPty, optOverlap, optExact, jobspec.OptExclusive, "immediate", "clusters", "disable-status", optUnbuffered, optOvercommit,
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
	return inv.Given(optJobID) && inv.Text(optJobID) != own || !inAJob(inv)
}

// runSession is grun --jobid, from outside of the job.
func runSession(inv *option.Invocation) error {
	name := inv.Text(optJobID)
	if name == "" {
		name = inv.Getenv("SLURM_JOB_ID")
	}
	if name == "" {
		return runInAllocation(inv)
	}
	job, err := client.OneJob(name)
	if err != nil {
		return err
	}
	if len(inv.Operands) == 0 && !inv.Given(optPty) {
		return option.Fail(1, option.Fatal+"No command given to execute.")
	}
	if _, err := readStepRequest(inv, inv.Values); err != nil {
		return err
	}
	wide := !inv.Given(optPty) && !isOneTask(inv)
	open, err := openOrder(inv, wide)
	if err != nil {
		return err
	}
	_, err = session.Begin(inv, job, name, open, wide)
	return err
}

// isOneTask reports whether a step named by its job is one task as it is, which a
// session runs without a grun inside the job.
func isOneTask(inv *option.Invocation) bool {
	if !inv.Given(optJobID) {
		return false
	}
	for _, o := range stepOptions() {
		if inv.Given(o.Long) && !slices.Contains(ofSession, o.Long) {
			return false
		}
	}
	return (inv.Text(jobspec.OptNtasks) == "" || inv.Text(jobspec.OptNtasks) == "1") && (inv.Text(jobspec.OptNodes) == "" || inv.Text(jobspec.OptNodes) == "1")
}

// openOrder is what process 1 is asked to start: the command, or, if it is to run as
// the tasks of a step, a grun inside the job.
func openOrder(inv *option.Invocation, wide bool) (*step.Open, error) {
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
	if wide && !inv.Given(optPty) {
		open.Argv = insideArguments(inv)
	}
	return withTerminal(inv, open), nil
}

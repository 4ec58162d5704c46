package run

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/allocation"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// allocationOptions are those of the job that grun makes for itself, as far as they
// are none of the step's.
func allocationOptions() []option.Option {
	return slices.DeleteFunc(jobspec.AllocationOptions("GRUN_", "SLURM_"), func(o option.Option) bool {
		return slices.ContainsFunc(stepOptions(), func(own option.Option) bool { return own.Long == o.Long })
	})
}

// runInAllocation is grun outside of any job: it gets a job of its own, and the step
// is the session that this lives as long as.
func runInAllocation(inv *option.Invocation) error {
	if len(inv.Operands) == 0 && !inv.Given(optPty) {
		return option.Fail(1, option.Fatal+"No command given to execute.")
	}
	if _, err := readStepRequest(inv, inv.Values); err != nil {
		return err
	}
	open, err := openOrder(inv, true)
	if err != nil {
		return err
	}
	name := "interactive"
	if len(inv.Operands) > 0 {
		name = filepath.Base(inv.Operands[0])
	}
	a, err := allocation.Obtain(inv, inv.Values, name)
	if err != nil {
		return err
	}
	open.Name = a.Session
	detached, err := session.Begin(inv, a.ID(), a.Name(), open, !inv.Given(optPty))
	if detached {
		a.Leave()
		return err
	}
	return errors.Join(err, a.Release())
}

// toClient are options of grun that the grun inside the job does not get: they are
// about the session, or said by now.
var toClient = []string{optJobID, optPty, jobspec.OptChdir, jobspec.OptExport, "immediate", "inactive-limit", option.Controller}

// insideArguments are the words of a grun inside the job that runs the tasks of a step
// on the job's nodes. The commands are linked in /usr/local/bin of every job; where a
// file system of the host's is there, PATH has them.
func insideArguments(inv *option.Invocation) []string {
	words := []string{"/bin/sh", "-c", `own=/usr/local/bin/$0; [ -x "$own" ] || own=$0; exec "$own" "$@"`, inv.Command.Program()}
	for _, one := range stepOptions() {
		if !inv.Given(one.Long) || slices.Contains(toClient, one.Long) {
			continue
		}
		word := "--" + one.Long
		if value := inv.Text(one.Long); !one.Flag() && (value != "" || !one.OptionalArgument) {
			word += "=" + value
		}
		words = append(words, word)
	}
	return append(append(words, "--"), inv.Operands...)
}

// ofAnAllocation says of options typed inside a job that they are for an allocation of
// its own.
func ofAnAllocation(inv *option.Invocation, typed option.Values) {
	for _, one := range allocationOptions() {
		if !typed.Given(one.Long) || one.Ignored != "" {
			continue
		}
		switch one.Long {
		case jobspec.OptGPUs, jobspec.OptGPUsPerNode, jobspec.OptGres, jobspec.OptMem, jobspec.OptMemPerCPU:
		case jobspec.OptJobName, jobspec.OptPartition, jobspec.OptAccount, "qos":
		default:
			if !inv.Given(jobspec.OptQuiet) {
				fmt.Fprintf(inv.Stderr, "%s: --%s has no effect inside a job: %s\n", inv.Command.Program(), one.Long, ofTheJob)
			}
		}
	}
}

// inAJob reports whether grun runs on a node of a job, as one of its processes.
func inAJob(inv *option.Invocation) bool { return inv.Getenv("GLEANER_STEP_SOCKET") != "" }

// withTerminal asks for a terminal if --pty does.
func withTerminal(inv *option.Invocation, open *step.Open) *step.Open {
	if inv.Given(optPty) {
		open.Window = session.Window()
	}
	return open
}

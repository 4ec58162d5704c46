package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// ofSession are grun's options that a session has; the others are for steps
// that are started from inside their job.
var ofSession = []string{
	optJobID, optPty, "overlap", "exact", optExclusive, "immediate", "disable-status", optUnbuffered, optOvercommit,
	optNtasks, optNodes, optCPUsPerTask, optChdir, optExport, optQuiet, optVerbose, optMPI, optCPUBind, option.Controller,
}

// wantsSession says whether the step is one that process 1 of a job keeps,
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
		return fmt.Errorf("--pty needs a job that runs: name it with --jobid; interactive allocations are not carried out yet")
	}
	job, err := oneJob(name)
	if err != nil {
		return err
	}
	for _, o := range inv.Command.Options {
		if inv.Given(o.Long) && !slices.Contains(ofSession, o.Long) {
			return option.Fail(1, "--%s is for steps that are started from inside their job: leave it out, or put the grun line into the job's script", o.Long)
		}
	}
	for _, long := range []string{optNtasks, optNodes} {
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
	s := &sessionClient{inv: inv, job: job, jobName: name, open: open}
	return s.attend(open.Window != nil)
}

// oneJob reads the number of a job, or of one task of an array.
func oneJob(text string) (*pb.JobId, error) {
	targets, err := spec.ParseJobTargets(text)
	if err != nil {
		return nil, option.Fail(1, "%w", err)
	}
	if len(targets) == 1 && !targets[0].HasTasks {
		return &pb.JobId{Job: targets[0].Job}, nil
	}
	if len(targets) == 1 && spec.CountTasks(targets[0].Tasks) == 1 {
		return taskIDs(targets[0])[0], nil
	}
	return nil, option.Fail(1, "%s names several jobs: name one", text)
}

// openOrder is what process 1 is asked to start.
func openOrder(inv *option.Invocation) (*step.Open, error) {
	directory, err := os.Getwd()
	if err != nil {
		directory = "/"
	}
	if given := inv.Text(optChdir); given != "" {
		directory = inDirectory(directory, given)
	}
	umask, err := fileMask("")
	if err != nil {
		return nil, err
	}
	exported, err := stepEnvironment(inv.Environ, inv.Text(optExport))
	if err != nil {
		return nil, err
	}
	// What describes a job would be another job's.
	exported = slices.DeleteFunc(exported, func(entry string) bool {
		name := nameOf(entry)
		return strings.HasPrefix(name, "SLURM") || strings.HasPrefix(name, "GLEANER_") || name == "CUDA_VISIBLE_DEVICES"
	})
	open := &step.Open{
		Name: uuid.NewString(), Client: uuid.NewString(),
		Argv: inv.Operands, Env: exported, Cwd: step.Bytes(directory), Umask: umask,
	}
	if inv.Given(optPty) {
		open.Window = (*screen)(nil).size()
	}
	return open, nil
}

// attend makes what a session needs of the user's side, and stays with it.
func (s *sessionClient) attend(terminal bool) (err error) {
	if s.client, err = connect(s.inv); err != nil {
		return err
	}
	defer s.client.Close()
	left := make(chan struct{})
	s.input, s.leave = newTypedInput(), left
	var keys *keyWatch
	caught := forwarded
	if terminal {
		if s.screen, err = takeScreen(s.inv.Stdin, s.inv.Stdout); err != nil {
			return fmt.Errorf("the terminal cannot be made raw: %w", err)
		}
		screen := s.screen
		defer screen.restore()
		if s.open != nil {
			s.open.Window = s.screen.size()
		}
		if s.screen != nil {
			caught = []os.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}
		}
		keys = &keyWatch{found: func() { close(left) }}
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, caught...)
	defer signal.Stop(signals)
	s.signals = signals
	go s.input.read(s.inv.Stdin, keys)
	// A signal is for the task, or for leaving in good order.
	return s.run(context.WithoutCancel(s.inv.Context))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

func attachCommand() *option.Command {
	later := func(short byte, long, argument, remedy string) option.Option {
		return option.Option{Long: long, Short: short, Argument: argument, Later: remedy}
	}
	return &option.Command{
		Name:    "attach",
		Alias:   "sattach",
		Summary: "attach to a step that was started with grun --jobid",
		Description: []string{
			"A step that grun starts from outside of its job (grun --jobid, with or without --pty) is a session: it goes on when its client leaves or is lost, and when the job is saved and moved. gattach takes the place of the client. It begins with what the session wrote and no client has had, as far as that was kept: with a terminal the last 256 KiB, with pipes all of it, since the task waits.",
			"A session has one client: who was attached before is told, and leaves. Who may attach: the user of the job, and root.",
			"Control-], typed three times within a second, leaves a session with a terminal to itself; so do SIGHUP and SIGTERM. Other signals, and all where the session has pipes, go to the task; two interrupts within a second kill it.",
			"Without the number of a step it attaches to the one session that the job has; where there are several it lists them.",
		},
		Usage: "[options] job[.step]",
		Operands: []option.Variable{
			{Name: "job.step", Help: "a job, or one task of an array, and the number of the step: 12.0, 13_4.1"},
		},
		Options: []option.Option{
			{Long: optQuiet, Short: 'Q', Help: "print nothing but errors"},
			{Long: optVerbose, Short: 'v', Help: "accepted and without effect: what happens is said anyway"},
			{Long: optPty, Help: "accepted and without effect: the session knows whether it has a terminal"},
			later(0, "error-filter", "task", "a session has one task: redirect standard error"),
			later(0, "input-filter", "task", "a session has one task: redirect standard input"),
			later(0, "output-filter", "task", "a session has one task: redirect standard output"),
			later('l', optLabel, "", leaveOut+"; a session has one task"),
			later(0, "layout", "", leaveOut+"; a session is one task on the node of the batch script"),
		},
		Examples: []option.Example{
			{Text: "a shell in a job that runs", Command: "grun --jobid=12 --overlap --pty bash"},
			{Text: "come back to it", Command: "gattach 12.0"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the task ended with 0, or the session was left to itself"},
			{Status: "1", Help: "nobody could attach, or the session is gone"},
			{Status: "any", Help: "the status of the task; one that a signal ended counts 128 and the signal's number"},
		},
		SeeAlso: []string{"grun", "gqueue", "gcontrol"},
		Run:     attachSession,
	}
}

// attachSession is gattach.
func attachSession(inv *option.Invocation) error {
	if len(inv.Operands) != 1 {
		return option.Fail(1, "gattach needs one step: type gattach JOB.STEP")
	}
	name, number, given := strings.Cut(inv.Operands[0], ".")
	job, err := oneJob(name)
	if err != nil {
		return err
	}
	s := &sessionClient{inv: inv, job: job, jobName: name, attach: &step.Attach{Client: uuid.NewString()}}
	if given {
		value, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return option.Fail(1, "Invalid job step specified: %.40q is not the number of a step", number)
		}
		s.attach.Step = uint32(value)
	}
	sessions, err := s.sessions()
	if err != nil {
		return err
	}
	for _, known := range sessions {
		if given && known.Step == s.attach.Step || !given && len(sessions) == 1 {
			s.attach.Step = known.Step
			return s.attend(known.Terminal)
		}
	}
	switch {
	case given:
		return option.Fail(1, "Invalid job step specified: job %s has no session %s%s", name, number, sessionWords(name, sessions))
	case len(sessions) == 0:
		return option.Fail(1, "job %s has no session: grun --jobid=%s --overlap --pty begins one", name, name)
	}
	return option.Fail(1, "job %s has several sessions: name one%s", name, sessionWords(name, sessions))
}

// sessions asks which the job has, until a controller answers.
func (s *sessionClient) sessions() (sessions []step.SessionInfo, err error) {
	c, err := connect(s.inv)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	later := (*refusedError)(nil)
	begun := time.Now()
	for pace := retryPace(); ; {
		err = c.persist(s.inv.Context, c.limits.question, func(ctx context.Context, _ time.Duration) error {
			stream, _, err := openSession(ctx, c, s.job)
			if err != nil {
				return err
			}
			defer stream.Close()
			late := time.AfterFunc(attachTime, func() { _ = stream.Close() })
			defer late.Stop()
			sessions, err = step.NewAttachment(stream).List()
			if errors.Is(err, io.EOF) {
				return status.Error(codes.Unimplemented, "process 1 of the job is older than the node's gnoded, and knows no sessions")
			}
			return err
		})
		if !errors.As(err, &later) || !later.later || time.Since(begun) > contactTime {
			break
		}
		sleep(s.inv.Context, pace)
	}
	if err != nil {
		return nil, s.cannot(describe(err))
	}
	return sessions, nil
}

// sessionWords lists sessions behind an error.
func sessionWords(job string, sessions []step.SessionInfo) string {
	var text strings.Builder
	for _, known := range sessions {
		how := "pipes"
		if known.Terminal {
			how = "terminal"
		}
		switch {
		case known.Ended:
			how += ", ended"
		case known.Attached:
			how += ", attached"
		}
		fmt.Fprintf(&text, "\n%s.%d  %s  (%s)", job, known.Step, format.Printable(string(known.Command)), how)
	}
	return text.String()
}

// Package attach is gattach, Slurm's sattach: it attaches to a session of a job,
// or lists the sessions when several could be meant.
//
// The session itself, with its terminal, input and signals, is package session.
package attach

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Command is the table of gattach.
func Command() *option.Command {
	later := func(short byte, long, argument, remedy string) option.Option {
		return option.Option{Long: long, Short: short, Argument: argument, Later: remedy}
	}
	return &option.Command{
		Name:    "attach",
		Alias:   "sattach",
		Summary: "attach to a step that was started with grun --jobid",
		Description: []string{
			"A step that grun starts from outside of its job (grun --jobid, with or without --pty) is a session: it continues when its client leaves or is lost, and when the job is saved and moved. gattach takes the place of the client. It begins with what the session wrote and no client has had, as far as that was kept: with a terminal the last 256 KiB, with pipes all of it, since the task waits.",
			"A session has one client: who was attached before is told, and leaves. Who may attach: the user of the job, and root.",
			"Control-], typed three times within a second, leaves a session with a terminal to itself; so do SIGHUP, SIGTERM, SIGINT and SIGQUIT to gattach. Other signals, and all where gattach is not typed into at a terminal, go to the task; two interrupts within a second kill it.",
			"Without the number of a step it attaches to the one session that the job has; where there are several it lists them.",
		},
		Usage: "[options] job[.step]",
		Operands: []option.Variable{
			{Name: "job.step", Help: "a job, or one task of an array, and the number of the step: 12.0, 13_4.1"},
		},
		Options: []option.Option{
			{Long: "quiet", Short: 'Q', Help: "print nothing but errors"},
			{Long: "verbose", Short: 'v', Help: "accepted and without effect: what happens is said anyway"},
			{Long: "pty", Help: "accepted and without effect: the session knows whether it has a terminal"},
			later(0, "error-filter", "task", "a session has one task: redirect standard error"),
			later(0, "input-filter", "task", "a session has one task: redirect standard input"),
			later(0, "output-filter", "task", "a session has one task: redirect standard output"),
			later('l', "label", "", option.LeaveOut+"; a session has one task"),
			later(0, "layout", "", option.LeaveOut+"; a session is one task on the node of the batch script"),
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
	job, err := client.OneJob(name)
	if err != nil {
		return err
	}
	s := session.New(inv, job, name)
	wanted := uint32(0)
	if given {
		value, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return option.Fail(1, "Invalid job step specified: %.40q is not the number of a step", number)
		}
		wanted = uint32(value)
	}
	sessions, err := s.Sessions()
	if err != nil {
		return err
	}
	for _, known := range sessions {
		if given && known.Step == wanted || !given && len(sessions) == 1 {
			return s.Join(known.Step, known.Terminal)
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

// sessionWords lists sessions after an error.
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

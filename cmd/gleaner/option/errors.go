package option

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

var sprintf = fmt.Sprintf

// UsageError is returned for a command line that cannot be read. It is shown
// without the word "error", followed by where the help is, as Slurm does.
type UsageError struct {
	Program string
	Status  int // exit status; 0 means 1
	message string
}

func (e *UsageError) Error() string { return e.message }

// LeaveOut is the remedy for an option without which a job runs as well.
const LeaveOut = "leave it out"

// LaterError is returned for an option that exists in Slurm but is not
// supported, or for a variable that gives such an option.
type LaterError struct {
	Name   string // "--begin", "SBATCH_SIGNAL"
	Remedy string
}

func (e *LaterError) Error() string {
	return e.Name + " is not supported: " + e.Remedy
}

// Failure is an error with the exit status that a command ends with. Its
// message may have several lines, each of which is shown with the program's
// name in front; "" shows nothing.
type Failure struct {
	Status  int
	Message string
	Cause   error
}

func (e *Failure) Error() string {
	if e.Message == "" && e.Cause != nil {
		return e.Cause.Error()
	}
	return e.Message
}

// Unwrap is its cause.
func (e *Failure) Unwrap() error { return e.Cause }

// Exit ends a command with a status and no message: a job's own exit code.
// Exit(0) is nil.
func Exit(status int) error {
	if status == 0 {
		return nil
	}
	return &Failure{Status: status}
}

// ErrAnswered is returned for an option that was the whole question, as --json=list: the
// command is over, and all is well.
var ErrAnswered = errors.New("answered")

// Fatal is how the message of a Failure begins that Slurm calls fatal.
const Fatal = "fatal: "

// Fail ends a command with a status and a message.
func Fail(status int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Failure{Status: status, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Report says what of an error belongs on standard error, ready to be
// written, and the status to exit with. nil is "", 0. A message may quote what
// was typed, or what another user chose: nothing in it reaches the terminal as
// a control sequence.
func Report(program string, err error) (text string, status int) {
	if err == nil || errors.Is(err, ErrAnswered) {
		return "", 0
	}
	var usage *UsageError
	var failure *Failure
	switch {
	case errors.As(err, &failure): // first: it may be about a usage error in a script
		message := failure.Message
		if message != "" && err != error(failure) {
			message = err.Error()
		}
		return lines(program, message), max(failure.Status, 1)
	case errors.As(err, &usage):
		return fmt.Sprintf("%s: %s\nTry %q for more information\n", usage.Program, format.PrintableLines(usage.message), usage.Program+" --help"),
			max(usage.Status, 1)
	case errors.Is(err, context.Canceled):
		return lines(program, "interrupted before there was an answer: what was asked for may have been done all the same"), statusInterrupted
	}
	return lines(program, err.Error()), 1
}

// statusInterrupted is that of a program that SIGINT ends, as a shell says it.
const statusInterrupted = 128 + 2

func lines(program, message string) string {
	if message == "" {
		return ""
	}
	var text strings.Builder
	for line := range strings.SplitSeq(strings.TrimRight(message, "\n"), "\n") {
		if !strings.HasPrefix(line, Fatal) {
			line = "error: " + line
		}
		fmt.Fprintf(&text, "%s: %s\n", program, format.Printable(line))
	}
	return text.String()
}

// nearest is the long name most like a mistyped one, or "" if none is near.
func nearest(table []Option, typed string) string {
	var names []string
	for i := range table {
		if !table[i].Hidden {
			names = append(names, table[i].Names()...)
		}
	}
	return similar.Nearest(typed, names)
}

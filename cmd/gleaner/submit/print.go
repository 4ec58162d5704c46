package submit

import (
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// warn says what is no error, unless nothing but errors was asked for.
func warn(inv *option.Invocation, job *jobspec.Submission, warnings []string) {
	if job.Values.Given(jobspec.OptQuiet) {
		return
	}
	for _, warning := range warnings {
		fmt.Fprintf(inv.Stderr, "%s: warning: %s\n", inv.Command.Program(), format.Printable(warning))
	}
}

// printNumber says that the job was accepted. A reader that has gone must not
// end the command by its signal: the number would be lost.
func printNumber(inv *option.Invocation, job *jobspec.Submission, number uint32, cluster string) error {
	text := fmt.Sprintf("Submitted batch job %d\n", number)
	if cluster != "" {
		text = fmt.Sprintf("Submitted batch job %d on cluster %s\n", number, cluster)
	}
	switch {
	case job.Values.Given(jobspec.OptQuiet):
		return nil
	case job.Values.Given(jobspec.OptParsable):
		text = fmt.Sprintf("%d\n", number)
		if cluster != "" {
			text = fmt.Sprintf("%d;%s\n", number, cluster)
		}
	}
	signal.Ignore(syscall.SIGPIPE)
	_, err := io.WriteString(inv.Stdout, text)
	return err
}

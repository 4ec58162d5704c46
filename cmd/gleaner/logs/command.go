// Package logs is glogs: it prints what the script of a job writes, wherever its file lies,
// and follows it from run to run.
//
// The node that has the file sends it through the controllers: who may attach to the job may
// read it.
package logs

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

const (
	optFollow = "follow"
	optTail   = "tail"
	optStderr = "stderr"
	optQuiet  = "quiet"
)

// Command is the table of glogs.
func Command() *option.Command {
	return &option.Command{
		Name: "logs", Standalone: true, Summary: "print the output of a job, and follow it", Usage: "[options] job",
		Operands: []option.Variable{{Name: "job", Help: "a job (12), or a task of an array (13_4)"}},
		Description: []string{
			"glogs prints the file into which the script of a job writes, from any host: the node that has it sends it through a controller. It reads the file as the user of the job, and only if it is that user's own, or one that the user may write to. Who may: the user of the job, and root.",
			"With --follow it goes on with what the job writes later. It waits while the job is pending, and goes on when it was requeued or has moved to another node. It ends when the job does. A file that was renamed is followed on, beside the one that has its name now; one that was truncated is shown from its beginning.",
			"A step writes into the job's output unless grun has --output. A job that is over can be read as long as its file is there and its node is connected.",
		},
		Options: []option.Option{
			{Long: optFollow, Short: 'f', Help: "go on with what is written later, until the job ends"},
			{Long: optTail, Short: 'n', Argument: "lines", Help: "only the last lines, at first"},
			{Long: optStderr, Help: "standard error, if the job has a file of its own for it"},
			{Long: optQuiet, Short: 'q', Help: "print nothing but the output and errors"},
		},
		Examples: []option.Example{
			{Text: "what my job does now", Command: "glogs -f -n 20 12"},
			{Text: "the errors of a task that failed", Command: "glogs --stderr 13_4"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "it was printed, to the end of the job with --follow"},
			{Status: "1", Help: "there is no such job, it has no output, its file is gone or its node is away"},
			{Status: "130", Help: "it was interrupted"},
		},
		SeeAlso: []string{"gattach", "gcp", "gqueue", "gacct"},
		Run:     printOutput,
	}
}

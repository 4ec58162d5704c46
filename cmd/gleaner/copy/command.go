// Package copy is gcp: it copies files into a job that runs, and out of it.
//
// The job's end is a session of process 1's own program, so who may attach to the job may
// copy, and nobody else; what goes over the session is package filecopy's.
package copy

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

const (
	optRecursive = "recursive"
	optQuiet     = "quiet"
)

// Command is the table of gcp.
func Command() *option.Command {
	return &option.Command{
		Name:       "cp",
		Standalone: true,
		Summary:    "copy files into a job that runs, or out of it",
		Description: []string{
			"One of the two is JOB:PATH, a file or directory as the job sees it: in its home, its own /tmp, or wherever it runs. A path that does not begin with / begins at the job's working directory. The other one is a path on this host; one with a colon is written as ./12:x. A target that is a directory gets the copy under the name that the source has; any other target is the new name.",
			"Files are read and written as the user of the job there, and as you here. Who may copy: the user of the job, and root. Of a job on several nodes it is the node of the batch script.",
			"Every file is compared by its SHA-256, and has its name only when it is whole. A copy that broke off goes on where it stopped when the same command is typed again, and what is there already is not sent. Meanwhile it is called .gcp-... beside its name. The copy goes on when the job is saved and moved to another node.",
			"Links and special files in a directory are named and left out. Modes are copied, less the umask; owners and times are not.",
		},
		Usage: "[options] source target",
		Operands: []option.Variable{
			{Name: "source", Help: "JOB:PATH, or a path on this host"},
			{Name: "target", Help: "the same, and one of the two is in a job; JOB is a job (12), or a task of an array (13_4)"},
		},
		Options: []option.Option{
			{Long: optRecursive, Short: 'r', Help: "copy a directory with all that is in it"},
			{Long: optQuiet, Short: 'q', Help: "print nothing but errors"},
		},
		Examples: []option.Example{
			{Text: "a result, while the job runs", Command: "gcp 12:loss.csv ."},
			{Text: "a directory from the job's own /tmp", Command: "gcp -r 12:/tmp/run1 results/"},
			{Text: "a file that the job waits for", Command: "gcp stop-now 12:"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "all is copied"},
			{Status: "1", Help: "something is not; the rest is"},
		},
		SeeAlso: []string{"grun", "gattach"},
		Run:     copyFiles,
	}
}

package pid1

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/proto/filecopy"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// copyMain is the job's end of gcp: a session that sends or receives files over its input
// and output, as the job's user. It is in this program because that is in every job,
// whatever the job's root has.
func copyMain(args []string) int {
	tree := len(args) == 3 && args[1] == step.CopyTree
	if len(args) != 2 && !tree || args[0] != step.CopySend && args[0] != step.CopyReceive {
		fmt.Fprintln(os.Stderr, "usage: ginit copy send|receive [-r] PATH: gcp does it")
		return 2
	}
	path := args[len(args)-1]
	umask := unix.Umask(0)
	unix.Umask(umask)
	options := filecopy.Options{Recursive: tree, Umask: fs.FileMode(umask)}
	stream := &struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout}
	var err error
	if args[0] == step.CopySend {
		_, err = filecopy.Send(stream, path, options)
	} else {
		_, err = filecopy.Receive(stream, path, options)
	}
	if err != nil {
		return 1 // the other end says it
	}
	return 0
}

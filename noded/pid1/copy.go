package pid1

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
		var sum filecopy.Summary
		sum, err = filecopy.Send(stream, path, options)
		if err == nil && sum.Troubles == 0 {
			noteFetched(Dir, path)
		}
	} else {
		_, err = filecopy.Receive(stream, path, options)
	}
	if err != nil {
		return 1 // the other end says it
	}
	return 0
}

// noteFetched tells the program that copies the job's results away, if there is one, that all
// of what is at a path has been fetched.
func noteFetched(dir, path string) {
	if _, err := os.Lstat(filepath.Join(dir, step.StagingFile)); err != nil {
		return
	}
	_ = os.WriteFile(filepath.Join(dir, step.FetchedFile(path)), nil, 0o600) // it is fetched again otherwise
}

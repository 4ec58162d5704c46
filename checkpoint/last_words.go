package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLastWords bounds the quotation of what CRIU, and the command that started it,
// wrote to standard error.
const maxLastWords = 1 << 10

// lastWords is the standard error of a command. It is a file in memory, not a pipe: a
// process that the command forked may keep a pipe open, and the reader would wait.
type lastWords struct{ *os.File }

func newLastWords() (lastWords, error) {
	fd, err := unix.MemfdCreate("criu-stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return lastWords{}, fmt.Errorf("make a file for criu's last words: %w", err)
	}
	return lastWords{os.NewFile(uintptr(fd), "criu-stderr")}, nil
}

// join adds to the error of a command that ended early how it ended, and its last words.
func (w lastWords) join(err, waitErr error) error {
	var exit *exec.ExitError
	if errors.As(waitErr, &exit) {
		err = fmt.Errorf("%w: %s", err, exit)
	}
	text, readErr := io.ReadAll(io.NewSectionReader(w, 0, maxLastWords))
	if said := strings.TrimSpace(strings.ToValidUTF8(string(text), "?")); readErr == nil && said != "" {
		err = fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(said), " "))
	}
	return err
}

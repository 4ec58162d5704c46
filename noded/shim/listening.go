package shim

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// listening is what a supervisor says on its standard output once its socket
// answers.
const listening = "listening\n"

// sayListening says it, and lets standard output go.
func sayListening() error {
	// Not through os.Stdout, which takes a pipe without a reader for a reason
	// to end the program.
	_, sayErr := unix.Write(unix.Stdout, []byte(listening))
	// What a library prints is for the log.
	if err := errors.Join(sayErr, unix.Dup3(unix.Stderr, unix.Stdout, 0)); err != nil {
		return fmt.Errorf("tell the daemon: %w", err)
	}
	return nil
}

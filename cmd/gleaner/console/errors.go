package console

import (
	"errors"
	"os"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Reason is an error without the operation and the path, which the caller
// names.
func Reason(err error) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// FormatError says that --format or --Format cannot be read, and where its fields
// are explained.
func FormatError(inv *option.Invocation, kind string, err error) error {
	if err == nil {
		return nil
	}
	return inv.Fail("Invalid %s format specification: %w\nWhat each field shows is in its manual page: gleaner man %s | man -l -", kind, err, inv.Command.Name)
}

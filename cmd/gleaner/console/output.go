package console

import (
	"errors"
	"fmt"
)

// Output marks an error of writing as what it is.
func Output(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOutput, err)
}

// ErrOutput is returned when standard output cannot be written: nobody reads.
var ErrOutput = errors.New("cannot write the output")

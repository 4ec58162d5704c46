package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Discard removes the files of an image that the container restored from it does not
// use: all except process 1's program, which is mounted in it. A mounted file must keep
// its name, otherwise the container could not be saved again.
func (i *Image) Discard() error {
	return errors.Join(removeAllBut(i.Dir, carriedDir), removeAllBut(filepath.Join(i.Dir, carriedDir), filepath.Base(carriedInit)))
}

// removeAllBut removes everything in a directory except one entry.
func removeAllBut(directory, name string) error {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was spared
	}
	if err != nil {
		return fmt.Errorf("discard an image's files: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		if entry.Name() != name {
			failures = append(failures, os.RemoveAll(filepath.Join(directory, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

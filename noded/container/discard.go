package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Discard removes the files of an image that a container which was restored
// from it does not use: all but process 1's program, which is mounted in it. What
// is mounted must keep its name, or the container could not be saved again.
func (i *Image) Discard() error {
	return errors.Join(removeAllBut(i.Dir, carriedDir), removeAllBut(filepath.Join(i.Dir, carriedDir), filepath.Base(carriedInit)))
}

// removeAllBut removes what is in a directory, but one entry of it.
func removeAllBut(directory, name string) error {
	entries, err := os.ReadDir(directory)
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

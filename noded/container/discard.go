package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Discard removes the files of an image that a container which was restored
// from it does not use: all but those that are mounted in it. What is mounted
// must keep its name, or the container could not be saved again.
func (i *Image) Discard() error {
	entries, err := os.ReadDir(i.Dir)
	if err != nil {
		return fmt.Errorf("discard an image's files: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		if entry.Name() != carriedDir {
			failures = append(failures, os.RemoveAll(filepath.Join(i.Dir, entry.Name())))
		}
	}
	return errors.Join(failures...)
}

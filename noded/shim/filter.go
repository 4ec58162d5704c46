package shim

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gleaner-hpc/gleaner/noded/container"
)

// filterFile is the system-call filter of all containers, in the state
// directory. To make it takes as long as to make a container.
const filterFile = "syscalls.bpf"

// WriteFilter makes the system-call filter that all supervisors below
// stateDir give to their containers. The daemon calls it when it starts, before
// the first Launch, so that a new kernel or library gets a new one.
func WriteFilter(stateDir string) error {
	filter, err := container.CompileFilter()
	if err != nil {
		return err
	}
	if err := directory(stateDir).writeFile(filterFile, filter); err != nil {
		return fmt.Errorf("keep the system-call filter: %w", err)
	}
	return nil
}

func (s *Settings) filter() ([]byte, error) {
	filter, err := os.ReadFile(filepath.Join(s.StateDir, filterFile))
	if err != nil {
		return nil, fmt.Errorf("read the system-call filter, which gnoded makes when it starts: %w", err)
	}
	return filter, nil
}

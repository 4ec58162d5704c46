package bundle

import (
	"fmt"
	"os"
	"path/filepath"
)

// FilterFile is the system-call filter of all containers, in the state
// directory. Making it takes as long as making a container.
const FilterFile = "syscalls.bpf"

func (s *Settings) Filter() ([]byte, error) {
	filter, err := os.ReadFile(filepath.Join(s.StateDir, FilterFile))
	if err != nil {
		return nil, fmt.Errorf("read the system-call filter, which gnoded makes when it starts: %w", err)
	}
	return filter, nil
}

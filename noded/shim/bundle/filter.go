package bundle

import (
	"fmt"
	"os"
	"path/filepath"
)

// FilterFile is the system-call filter of all containers, in the state
// directory. Making it takes as long as making a container.
const FilterFile = "syscalls.bpf"

// NestedFilterFile is that of containers that may have others inside. It is made when
// the first of them is launched.
const NestedFilterFile = "syscalls-nested.bpf"

// Filter answers the one or the other.
func (s *Settings) Filter(nested bool) ([]byte, error) {
	name := FilterFile
	if nested {
		name = NestedFilterFile
	}
	filter, err := os.ReadFile(filepath.Join(s.StateDir, name))
	if err != nil {
		return nil, fmt.Errorf("read the system-call filter, which gnoded makes: %w", err)
	}
	return filter, nil
}

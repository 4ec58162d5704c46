package cgroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
)

// The versions that Detect tells apart. A machine with v1 hierarchies and a
// v2 hierarchy beside them is V1: the controllers are there.
const (
	V1 = "v1"
	V2 = "v2"
)

// Info says what this machine's control groups can do.
type Info struct {
	Version     string   // V1 or V2
	Controllers []string // usable ones, ascending; devices and freezer are among them on v2
}

// Detect looks at the mounted hierarchies. It fails with ErrUnsupported when
// there are none to work with.
func Detect() (Info, error) {
	if isV2() {
		controllers, err := cgroups.GetAllSubsystems()
		if err != nil {
			return Info{}, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		slices.Sort(controllers)
		return Info{Version: V2, Controllers: controllers}, nil
	}
	// Any path will do: only the keys are wanted.
	directories, err := New("/detect", Limits{}).directories()
	if err != nil {
		return Info{}, err
	}
	maps.DeleteFunc(directories, func(name, _ string) bool {
		return name == "" || strings.HasPrefix(name, "name=")
	})
	return Info{Version: V1, Controllers: slices.Sorted(maps.Keys(directories))}, nil
}

func isV2() bool { return cgroups.IsCgroup2UnifiedMode() }

package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
)

// Prepare makes the group parent, so that groups can be made below it, and
// answers what those can be limited by. It is Detect for one place in the
// hierarchy, and to be called before groups are made there.
//
// On v2 each group on the way down hands its controllers on, and the kernel
// lets only those do so that have no processes of their own. Prepare changes
// nothing and fails with ErrOccupied when one of them, or parent, has some.
func Prepare(parent string) (Info, error) {
	g := New(parent, Limits{})
	manager, err := g.manager()
	if err != nil {
		return Info{}, err
	}
	if isV2() {
		if err := checkAncestors(parent); err != nil {
			return Info{}, err
		}
	}
	const noProcess = -1
	if err := manager.Apply(noProcess); err != nil {
		return Info{}, fmt.Errorf("create cgroup %s: %w", parent, err)
	}
	if !isV2() {
		return Detect()
	}
	controllers, err := handDown(filepath.Join(fs2.UnifiedMountpoint, parent))
	if err != nil {
		return Info{}, fmt.Errorf("controllers of cgroup %s: %w", parent, err)
	}
	return Info{Version: V2, Controllers: controllers}, nil
}

// checkAncestors looks for what would keep controllers from reaching the
// groups below parent. To try it instead does harm: the kernel refuses the
// memory controller but takes the CPU controller, and makes the group threaded
// by that, which closes it to all other controllers.
func checkAncestors(parent string) error {
	name := "/"
	for _, element := range strings.Split(parent, "/") {
		name = filepath.Join(name, element)
		directory := filepath.Join(fs2.UnifiedMountpoint, name)
		// The machine's root group has no type, and may have processes. The
		// root that a container sees is none.
		kind, err := os.ReadFile(filepath.Join(directory, "cgroup.type"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if kind := strings.TrimSpace(string(kind)); kind != "domain" {
			return fmt.Errorf("cgroup %s is of type %q: %w", name, kind, ErrOccupied)
		}
		pids, err := cgroups.GetPids(directory)
		if err != nil {
			return err
		}
		if len(pids) > 0 {
			return fmt.Errorf("cgroup %s has processes of its own, %d (%s) for one: %w", name, pids[0], programOf(pids[0]), ErrOccupied)
		}
	}
	return nil
}

// programOf answers the name of a process, or "?" when it has gone or is not
// in this pid namespace.
func programOf(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(name))
}

// handDown makes a v2 group hand on all controllers that have reached it, and
// answers those that it does hand on, and the two that need no handing on.
func handDown(directory string) ([]string, error) {
	text, err := cgroups.ReadFile(directory, "cgroup.controllers")
	if err != nil {
		return nil, err
	}
	for _, controller := range strings.Fields(text) {
		// One may be refused where the others are not; what arrives is read.
		_ = writeFile(directory, "cgroup.subtree_control", "+"+controller)
	}
	if text, err = cgroups.ReadFile(directory, "cgroup.subtree_control"); err != nil {
		return nil, err
	}
	controllers := append(strings.Fields(text), "devices", "freezer")
	slices.Sort(controllers)
	return controllers, nil
}

// Package cgroup limits, freezes, kills, measures and removes groups of
// processes, on machines with control groups v1 and on those with v2.
//
// A Group is named by an absolute path such as "/batch/12.1". On v1 the same
// path is used in every hierarchy; on v2 there is only one. The path is always
// taken from the root of the hierarchy, never relative to the caller's own
// group, so that every process of a system means the same group by it.
//
// What the package promises: nothing is created by New; Kill returns nil only
// when no process is left; Remove never removes a group that has processes;
// the root group is refused, so no call can reach processes outside the
// groups that the caller named.
//
// What it needs: root, and the hierarchies mounted below /sys/fs/cgroup. The
// work of writing limits is done by github.com/opencontainers/cgroups, whose
// configuration Group.Config hands out for use with libcontainer.
package cgroup

import (
	"fmt"
	"maps"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // without it, setting device rules fails
	"github.com/opencontainers/cgroups/fs"
	"github.com/opencontainers/cgroups/fs2"
)

// Group is one control group, present in all hierarchies or not yet created.
// Its methods may be called from several goroutines and from several
// processes at once.
type Group struct {
	path   string
	limits Limits

	mu    sync.Mutex
	found map[string]string // what directories has answered; it stays true
}

// New describes the group at path, absolute in the hierarchy, with limits. It
// creates nothing. A path that is not absolute and clean, or is the root,
// makes every method fail with ErrBadPath, and Config return nil.
func New(path string, limits Limits) *Group {
	return &Group{path: path, limits: limits.clone()}
}

// Open finds a group that exists, for example after a restart of the caller.
// It succeeds if the group is left in at least one hierarchy, so that the
// rest of a half-removed group can be removed. The limits in force are not
// read back.
func Open(path string) (*Group, error) {
	g := New(path, Limits{})
	if _, err := g.present(); err != nil {
		return nil, err
	}
	return g, nil
}

// Path answers the group's path in the hierarchy, as given to New or Open.
func (g *Group) Path() string { return g.path }

// Config answers the configuration to hand to libcontainer as
// configs.Config.Cgroups: libcontainer then creates the group and applies the
// limits. Each call answers a new value.
func (g *Group) Config() *cgroups.Cgroup {
	if checkPath(g.path) != nil {
		return nil
	}
	return &cgroups.Cgroup{Path: g.path, Resources: g.limits.resources()}
}

// Create makes the group in all hierarchies and applies the limits. A group
// that exists keeps its processes and gets the limits; a limit of 0 leaves the former
// one as it is. A memory limit below what is in use is refused.
func (g *Group) Create() error {
	manager, err := g.manager()
	if err != nil {
		return err
	}
	const noProcess = -1
	if err := manager.Apply(noProcess); err != nil {
		return fmt.Errorf("create cgroup %s: %w", g.path, err)
	}
	if err := manager.Set(g.limits.resources()); err != nil {
		return fmt.Errorf("set limits of cgroup %s: %w", g.path, err)
	}
	return nil
}

// SetDevices replaces the devices that the group's processes may open, now and until
// the next SetDevices or Create, and leaves every other limit as it is. What they have
// open stays open. On v1 the kernel's list is read back; v2 shows nobody what a
// group's rule says.
func (g *Group) SetDevices(allowed []Device) error {
	if _, err := g.present(); err != nil {
		return err
	}
	manager, err := g.manager()
	if err != nil {
		return err
	}
	rules := Limits{Devices: allowed, DenyOtherDevices: true}.deviceRules()
	if err := manager.Set(&cgroups.Resources{Devices: rules}); err != nil {
		return fmt.Errorf("set the devices of cgroup %s: %w", g.path, err)
	}
	return nil
}

// Add moves the process pid, with all its threads, into the group, which must
// exist.
func (g *Group) Add(pid int) error {
	if _, err := g.present(); err != nil {
		return err
	}
	manager, err := g.manager()
	if err != nil {
		return err
	}
	if err := manager.AddPid("", pid); err != nil {
		return fmt.Errorf("move process %d into cgroup %s: %w", pid, g.path, err)
	}
	return nil
}

// manager answers the library's manager for this machine's version.
func (g *Group) manager() (cgroups.Manager, error) {
	if err := checkPath(g.path); err != nil {
		return nil, err
	}
	config := g.Config()
	var manager cgroups.Manager
	var err error
	if cgroups.IsCgroup2UnifiedMode() {
		manager, err = fs2.NewManager(config, "")
	} else {
		manager, err = fs.NewManager(config, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return manager, nil
}

// directories answers the directory of the group in each hierarchy, by
// controller, whether it exists or not. On v2, and for the v2 hierarchy that
// some v1 machines have beside the others, the key is "".
func (g *Group) directories() (map[string]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.found == nil {
		// Finding out where every hierarchy is mounted takes longer than
		// most of what is done with the answer.
		manager, err := g.manager()
		if err != nil {
			return nil, err
		}
		g.found = manager.GetPaths()
	}
	return maps.Clone(g.found), nil
}

// UnifiedDirectory is where the group is in the v2 hierarchy, whether it exists or not. It
// fails with ErrNoUnified where none is mounted.
func (g *Group) UnifiedDirectory() (string, error) {
	directories, err := g.directories()
	if err != nil {
		return "", err
	}
	directory, mounted := directories[""]
	if !mounted {
		return "", ErrNoUnified
	}
	return directory, nil
}

// present is directories, without those that do not exist. It fails with
// ErrNotFound when none exists.
func (g *Group) present() (map[string]string, error) {
	directories, err := g.directories()
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(directories, func(_, directory string) bool {
		_, err := os.Lstat(directory)
		return err != nil
	})
	if len(directories) == 0 {
		return nil, fmt.Errorf("cgroup %s: %w", g.path, ErrNotFound)
	}
	return directories, nil
}

// checkPath refuses everything but an absolute, clean path below the root.
func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.ContainsAny(p, "\x00\n") {
		return fmt.Errorf("%q: %w", p, ErrBadPath)
	}
	return nil
}

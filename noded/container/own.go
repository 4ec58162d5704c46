package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// ChosenError is an error about a path that the job's user chose: the job's fault,
// not the node's.
type ChosenError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *ChosenError) Error() string {
	return fmt.Sprintf("the job cannot have %s on this node: %v", e.Path, e.Err)
}

// Unwrap implements the interface of errors.Is.
func (e *ChosenError) Unwrap() error { return e.Err }

func chosen(path string, err error) error { return &ChosenError{Path: path, Err: err} }

// ownRules decide where the user's home, the work directory and other directories are
// bound. What counts is the place of a directory, not the name that led to it.
type ownRules struct {
	user   User
	mounts []hostMount
	rootID int              // of the mount of /
	binds  []string         // places of what the configuration binds
	hidden []string         // places of what it hides
	image  bool             // the root is not the host's
	shown  []userpath.Place // what is bound at its own place
}

// placed is one of the user's directories and its place.
type placed struct {
	*userpath.Directory
	place  userpath.Place
	target string // inside; "" = it is not bound
}

func newOwnRules(spec *Spec, mounts []hostMount) (*ownRules, error) {
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	id, err := userpath.MountID(root)
	r := &ownRules{user: spec.User, mounts: mounts, rootID: id, binds: configured(spec.Binds), hidden: configured(append(slices.Clone(spec.HideDirs), spec.Dir))}
	if r.image = spec.Root != nil; r.image {
		r.rootID = 0 // no mount has this id
	}
	return r, err
}

// configured answers paths of the configuration, each as it is and without links.
func configured(paths []string) []string {
	var found []string
	for _, path := range paths {
		path = filepath.Clean(path)
		found = append(found, path)
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			found = append(found, real)
		}
	}
	return found
}

// cloneOwn clones the user's home and work directories, unless the job finds them
// anyway. What is mounted below one does not come with it: it is
// shown if the host's mounts are, by the same rules.
func (s *stage) cloneOwn(spec *Spec, mounts []hostMount, c *cloned) error {
	rules, err := newOwnRules(spec, mounts)
	if err != nil {
		return err
	}
	add := func(d *placed) error {
		known := func(path string) bool {
			return slices.ContainsFunc(c.layers, func(l layer) bool { return l.chosen && l.path == path }) ||
				slices.ContainsFunc(c.trees, func(t tree) bool { return t.target == path })
		}
		if d.target == "" || known(d.target) {
			return nil
		}
		t, err := s.clone(d.target, d.File, cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_NOSUID})
		switch {
		case err != nil:
			return chosen(d.Path, err)
		case within(d.target, "/run"):
			c.trees = append(c.trees, tree{file: t, target: d.target, chosen: true})
		default:
			c.layers = append(c.layers, layer{path: d.target, tree: t, directory: true, chosen: true})
		}
		if d.target == d.place.Path {
			rules.shown = append(rules.shown, d.place)
		}
		return nil
	}
	if home := rules.openHome(spec); home != nil {
		defer home.File.Close()
		if err := add(home); err != nil {
			return err
		}
	}
	for _, dir := range slices.Concat([]*userpath.Directory{spec.WorkDir}, spec.Dirs) {
		if dir == nil {
			continue
		}
		d, err := rules.decide(dir)
		if err != nil {
			return err
		}
		if within(d.target, rules.runtimeDir()) {
			if d, err = rules.openRuntimeDir(); err != nil {
				return chosen(dir.Path, err)
			}
			defer d.File.Close()
		}
		if err := add(d); err != nil {
			return err
		}
	}
	if spec.Root != nil {
		return s.cloneChosen(spec, rules, c)
	}
	return nil
}

// runtimeDir is where sessions of the user on the node keep their sockets, the only
// directory below /run that is a user's.
func (r *ownRules) runtimeDir() string { return "/run/user/" + strconv.Itoa(int(r.user.UID)) }

// openRuntimeDir opens it as a whole: so the mount point that libcontainer makes has a
// name that nobody chose.
func (r *ownRules) openRuntimeDir() (*placed, error) {
	path := r.runtimeDir()
	dir, err := userpath.OpenDirectory(r.user.Identity(), path)
	if err != nil {
		return nil, err
	}
	place, err := userpath.Where(dir.File)
	if err == nil && (place.Path != path || place.Kernels() || !ownedBy(dir, r.user.UID)) {
		err = errors.New("it is not the user's own")
	}
	if err != nil {
		dir.File.Close()
		return nil, err
	}
	return &placed{Directory: dir, place: place, target: path}, nil
}

// openHome opens the user's home, if it is one: a directory that the user
// owns and that is not the system's.
func (r *ownRules) openHome(spec *Spec) *placed {
	path := r.user.Home
	if spec.Root != nil && spec.Root.NoHome || !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil
	}
	dir, err := userpath.OpenDirectory(r.user.Identity(), path)
	if err != nil {
		return nil
	}
	home := &placed{Directory: dir}
	if home.place, err = userpath.Where(dir.File); err == nil && ownedBy(dir, r.user.UID) {
		target := r.targetOf(home)
		hidden := r.isHidden(home.place.Path) && home.place.Path != path // otherwise it is shown nevertheless
		if !hidden && r.forbidden(target, home.place) == "" && r.canHold(target) {
			if !r.inShare(path, home.place) {
				home.target = target
			}
			return home
		}
	}
	dir.File.Close()
	return nil
}

func ownedBy(dir *userpath.Directory, uid uint32) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(dir.File.Fd()), &stat) == nil && stat.Uid == uid
}

// decide says where one of the user's directories is bound, so that the job finds
// it and what the job writes there is kept. It is bound if it is on another file system
// than the root, if the user may write in it, or if its place or its name is below a
// directory that is private to a container.
func (r *ownRules) decide(dir *userpath.Directory) (*placed, error) {
	place, err := userpath.Where(dir.File)
	if err != nil {
		return nil, chosen(dir.Path, err)
	}
	d := &placed{Directory: dir, place: place}
	return d, r.placeDirectory(d)
}

// placeDirectory fills in the target of a directory whose place is known.
func (r *ownRules) placeDirectory(d *placed) error {
	path, at, target := filepath.Clean(d.Path), d.place.Path, r.targetOf(d)
	switch {
	case within(path, pid1.Dir):
		return nil
	case r.isHidden(at) && !r.isShown(d.place):
		return chosen(d.Path, fmt.Errorf("it lies at %s, which jobs on this node do not see: choose another directory", at))
	case target == at && r.seen(path, d.place):
		return nil
	case !d.Writable && !isPrivate(target) && r.ofRoot(d.place):
		return nil
	case !d.Writable && r.image && slices.ContainsFunc(systemDirs, func(dir string) bool { return within(at, dir) }):
		return nil // an image has its own
	}
	switch why := r.forbidden(target, d.place); {
	case why == "" && !r.canHold(target):
		return chosen(d.Path, errors.New("jobs have a directory of their own there: choose another directory"))
	case why == "":
		d.target = target
	case isPrivate(path) && path != at, within(at, "/run") && at != "/run":
		return chosen(d.Path, fmt.Errorf("it lies at %s, which is %s: choose another directory", at, why))
	}
	return nil
}

// targetOf answers where inside a directory would be bound. That is its place, because
// links lead there inside too, unless its name is in a private directory of the job's,
// which has none of the host's links.
func (r *ownRules) targetOf(d *placed) string {
	if path := filepath.Clean(d.Path); isPrivate(path) || r.image {
		return path
	}
	return d.place.Path
}

// canHold says whether something of the user's can be mounted at a path inside.
func (r *ownRules) canHold(target string) bool {
	return !isPrivate(target) || within(target, "/tmp") || within(target, "/var/tmp") || within(target, r.runtimeDir())
}

// seen says whether the job finds the directory at its place without a separate mount.
func (r *ownRules) seen(path string, place userpath.Place) bool {
	return r.inShare(path, place) || r.isShown(place) ||
		slices.ContainsFunc(r.binds, func(dir string) bool { return within(place.Path, dir) })
}

func (r *ownRules) isShown(place userpath.Place) bool {
	return slices.ContainsFunc(r.shown, func(s userpath.Place) bool { return s.Mount == place.Mount && within(place.Path, s.Path) })
}

// inShare says whether a file system of the host that jobs have shows the place.
func (r *ownRules) inShare(path string, place userpath.Place) bool {
	if isPrivate(path) || isPrivate(place.Path) {
		return false
	}
	return slices.ContainsFunc(r.mounts, func(m hostMount) bool { return !m.system && m.id == place.Mount })
}

// ofRoot says whether the place is part of the root that every job has.
func (r *ownRules) ofRoot(place userpath.Place) bool {
	return place.Mount == r.rootID || slices.ContainsFunc(r.mounts, func(m hostMount) bool { return m.system && m.id == place.Mount })
}

func (r *ownRules) isHidden(path string) bool {
	return slices.ContainsFunc(r.hidden, func(dir string) bool { return within(path, dir) })
}

// forbidden answers what a place is that is never bound, or "".
func (r *ownRules) forbidden(target string, place userpath.Place) string {
	below := func(dirs ...string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return within(place.Path, dir) })
	}
	switch {
	case place.Kernels() || below("/proc", "/sys", "/dev"):
		return "the kernel's own"
	case below("/run", "/var/run") && !below(r.runtimeDir()):
		return "where the services of the node are"
	case slices.Contains(neverBound, place.Path), r.user.UID == 0 && below(append(systemDirs, "/boot")...):
		return "a directory of the system"
	case target != place.Path && slices.ContainsFunc(r.hidden, func(dir string) bool { return within(dir, place.Path) }):
		return "above what jobs on this node do not see"
	}
	return ""
}

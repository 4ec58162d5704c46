package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
)

const (
	nosuid = unix.MS_NOSUID
	noexec = unix.MS_NOEXEC
	nodev  = unix.MS_NODEV
)

// privateDirs are made new for every container, so nothing of the host below
// them is hidden or bound as part of the root.
var privateDirs = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"}

func isPrivate(path string) bool {
	return slices.ContainsFunc(privateDirs, func(dir string) bool { return within(path, dir) })
}

// neverBound cannot be a work directory or a home of their own: as the whole
// directory they are the system's, or private.
var neverBound = []string{
	"/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media",
	"/mnt", "/opt", "/run", "/sbin", "/srv", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp",
}

// nameServices are where the host's programs ask who a user is.
var nameServices = []string{"/run/nscd", "/run/systemd/userdb", "/var/lib/sss/pipes"}

// tree is a cloned mount and where it goes.
type tree struct {
	file   *os.File
	target string
}

// cloned is everything that a container's root is made of.
type cloned struct {
	lower  *os.File
	shares []share
	trees  []tree // mounted by libcontainer
}

// cloneAll clones everything that will be bound, before the staging
// area covers anything.
func (s *stage) cloneAll(spec *Spec) (c cloned, err error) {
	if c.lower, err = s.clone("/", nil, cloneOptions{idmap: true}); err != nil {
		return c, err
	}
	mounts, err := hostMounts(append(slices.Clone(spec.HideDirs), spec.Dir))
	if err != nil {
		return c, err
	}
	if c.shares, err = s.cloneShares(spec.Binds, mounts); err != nil {
		return c, err
	}
	add := func(path string, file *os.File, target string, o cloneOptions) {
		if err != nil {
			return
		}
		var t *os.File
		if t, err = s.clone(path, file, o); err == nil {
			c.trees = append(c.trees, tree{t, target})
		}
	}
	const sysAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	add("/sys", nil, "/sys", cloneOptions{attr: sysAttr})
	add(spec.RunDir, nil, pid1.Dir, cloneOptions{attr: unix.MOUNT_ATTR_NOSUID})
	add(spec.InitPath, nil, initPath, cloneOptions{attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	bound := s.addOwn(spec, mounts, add)
	for _, f := range spec.Files {
		add(f.File.Name(), f.File, f.Target, cloneOptions{})
	}
	for _, path := range existing(append(slices.Clone(nameServices), resolverDir()...)) {
		add(path, nil, path, cloneOptions{recursive: true, attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
	}
	for _, d := range spec.Devices {
		if err == nil {
			err = checkDevice(&d)
		}
		add(d.Path, nil, d.ContainerPath, cloneOptions{})
	}
	for _, m := range mounts {
		if m.system && !slices.ContainsFunc(bound, func(dir string) bool { return within(m.path, dir) }) {
			add(m.path, nil, m.path, cloneOptions{idmap: true, noAutomount: true, recursive: m.network})
		}
	}
	if err != nil {
		return c, err
	}
	accounts, err := accountFiles(spec)
	for target, path := range accounts {
		add(path, nil, target, cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_RDONLY})
	}
	return c, err
}

// addOwn adds what the configuration binds, the user's home and the work
// directory, as far as the shares do not show them. It answers the paths
// below which nothing else needs to be added.
func (s *stage) addOwn(spec *Spec, mounts []hostMount, add func(string, *os.File, string, cloneOptions)) (bound []string) {
	whole := cloneOptions{recursive: true, idmap: true, attr: unix.MOUNT_ATTR_NOSUID}
	for _, path := range spec.Binds {
		if isPrivate(path) { // else it is a share
			add(path, nil, path, whole)
		}
		bound = append(bound, path)
	}
	home := openHome(spec.User)
	if home != nil {
		defer home.Close()
		if !inShare(mounts, home, spec.User.Home) {
			add(home.Name(), home, spec.User.Home, whole)
			bound = append(bound, spec.User.Home)
		}
	}
	own := slices.Clone(spec.Dirs)
	if spec.WorkDir != nil {
		own = slices.Insert(own, 0, spec.WorkDir)
	}
	var shown []*WorkDir
	for _, w := range own {
		if !inShare(mounts, w.File, w.Path) && s.bindsWorkDir(w, spec, home != nil) && !lookThrough(shown, w) {
			add(w.Path, w.File, w.Path, whole)
			shown = append(shown, w)
		}
	}
	return bound
}

// lookThrough says whether a directory is seen in one of those that are bound
// already: it lies below it, and no link leads out of it.
func lookThrough(shown []*WorkDir, w *WorkDir) bool {
	return slices.ContainsFunc(shown, func(above *WorkDir) bool {
		from, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(above.File.Fd())))
		to, err2 := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(w.File.Fd())))
		if err = errors.Join(err, err2); err != nil {
			return false
		}
		inside, err := filepath.Rel(above.Path, w.Path)
		return err == nil && within(w.Path, filepath.Clean(above.Path)) && to == filepath.Join(from, inside)
	})
}

// openHome opens the user's home, if it is one: a directory that the user
// owns and that is not the system's.
func openHome(u User) *os.File {
	if !filepath.IsAbs(u.Home) || filepath.Clean(u.Home) != u.Home || slices.Contains(neverBound, u.Home) || belowKernelDirs(u.Home) {
		return nil
	}
	w, err := OpenWorkDir(u, u.Home)
	if err != nil {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(w.File.Fd()), &stat); err != nil || stat.Uid != u.UID {
		w.File.Close()
		return nil
	}
	return w.File
}

// bindsWorkDir says whether the work directory must be bound so that the job
// finds it, and what it writes there is kept: it lies on another file system
// than the root, or the user may write in it, or below one of the directories
// that are private to a container.
func (s *stage) bindsWorkDir(w *WorkDir, spec *Spec, homeBound bool) bool {
	path := filepath.Clean(w.Path)
	if slices.Contains(neverBound, path) || belowKernelDirs(path) || within(path, pid1.Dir) {
		return false
	}
	if homeBound && within(path, spec.User.Home) {
		return false // there already
	}
	if slices.ContainsFunc(spec.Binds, func(bind string) bool { return within(path, filepath.Clean(bind)) }) {
		return false
	}
	if w.Writable || isPrivate(path) {
		return true
	}
	var own, root unix.Stat_t
	if unix.Fstat(int(w.File.Fd()), &own) != nil || unix.Stat("/", &root) != nil {
		return true
	}
	return own.Dev != root.Dev && !slices.ContainsFunc(systemDirs, func(dir string) bool { return within(path, dir) })
}

func belowKernelDirs(path string) bool {
	return within(path, "/proc") || within(path, "/sys") || within(path, "/dev")
}

// resolverDir answers the directory of /run that holds the resolver's
// settings, where /etc/resolv.conf is a link to them.
func resolverDir() []string {
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || filepath.Dir(target) == "/run" || !within(target, "/run") {
		return nil
	}
	return []string{filepath.Dir(target)}
}

// checkDevice refuses a path that is not the device it should be: a stale or
// swapped device file would give a job somebody else's GPU.
func checkDevice(d *Device) error {
	var stat unix.Stat_t
	if err := unix.Lstat(d.Path, &stat); err != nil {
		return &os.PathError{Op: "look at device", Path: d.Path, Err: err}
	}
	kind := uint32(unix.S_IFCHR)
	if d.Type == 'b' {
		kind = unix.S_IFBLK
	}
	major, minor := int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev))
	if stat.Mode&unix.S_IFMT != kind || major != d.Major || minor != d.Minor {
		return fmt.Errorf("%s is not the %c device %d:%d, but mode %#o, %d:%d", d.Path, d.Type, d.Major, d.Minor, stat.Mode, major, minor)
	}
	if !within(filepath.Clean(d.ContainerPath), "/dev") || d.ContainerPath == "/dev" {
		return fmt.Errorf("device %s cannot be shown as %q, which is not below /dev", d.Path, d.ContainerPath)
	}
	return nil
}

// hiddenDirs answers those directories to hide that a container would see.
func hiddenDirs(spec *Spec) []string {
	var hidden []string
	for _, dir := range existing(spec.HideDirs) {
		dir = filepath.Clean(dir)
		if !isPrivate(dir) {
			hidden = append(hidden, dir)
		}
	}
	return hidden
}

// mountList answers what libcontainer mounts over the root: parents first.
func mountList(hidden []string, bound map[string]string) []*configs.Mount {
	mounts := []*configs.Mount{
		{Destination: "/proc", Source: "proc", Device: "proc", Flags: nosuid | noexec | nodev},
		{Destination: "/dev", Source: "tmpfs", Device: "tmpfs", Flags: nosuid | unix.MS_STRICTATIME, Data: "mode=755,size=64k"},
		{Destination: "/dev/pts", Source: "devpts", Device: "devpts", Flags: nosuid | noexec, Data: "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{Destination: "/dev/shm", Source: "shm", Device: "tmpfs", Flags: nosuid | nodev, Data: "mode=1777"},
		{Destination: "/dev/mqueue", Source: "mqueue", Device: "mqueue", Flags: nosuid | noexec | nodev},
		{Destination: "/run", Source: "tmpfs", Device: "tmpfs", Flags: nosuid | nodev, Data: "mode=0755,size=64m"},
	}
	for _, dir := range hidden {
		mounts = append(mounts, &configs.Mount{Destination: dir, Source: "tmpfs", Device: "tmpfs", Flags: nosuid | nodev, Data: "mode=0755,size=64k"})
	}
	for target, source := range bound {
		mounts = append(mounts, &configs.Mount{Destination: target, Source: source, Device: "bind", Flags: unix.MS_BIND | unix.MS_REC})
	}
	slices.SortStableFunc(mounts, func(a, b *configs.Mount) int {
		return strings.Compare(a.Destination+"/", b.Destination+"/")
	})
	return mounts
}

// assembled is what a container is made of, mounted in the stage.
type assembled struct {
	root   string            // path of the overlay, with the shares mounted in it
	shares []string          // paths inside of what is mounted in root
	bound  map[string]string // what libcontainer mounts: path inside to path in the stage
	hidden []string          // directories that libcontainer covers
}

// assemble mounts everything in the stage. fill is called when the layers of
// the root exist and nothing has been mounted yet.
func (s *stage) assemble(spec *Spec, fill func(layers) error) (*assembled, error) {
	if err := refuseHostNamespace(); err != nil {
		return nil, err
	}
	c, err := s.cloneAll(spec)
	if err != nil {
		return nil, err
	}
	l, err := s.makeLayers(spec.Dir)
	if err != nil {
		return nil, err
	}
	if err := fill(l); err != nil {
		return nil, err
	}
	for target, path := range map[string]string{"/tmp": l.tmp, "/var/tmp": l.varTmp} {
		t, err := s.clone(path, nil, cloneOptions{attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		if err != nil {
			return nil, err
		}
		c.trees = append(c.trees, tree{t, target})
	}
	a := &assembled{hidden: hiddenDirs(spec)} // before the staging area covers any
	if err := s.mount(append([]string{spec.Dir, spec.RunDir}, spec.Keep...)); err != nil {
		return nil, err
	}
	lowerPath, err := s.attach(c.lower)
	if err != nil {
		return nil, err
	}
	if a.root, err = s.mountRoot(lowerPath, l); err != nil {
		return nil, err
	}
	if a.hidden, err = s.mountShares(a.root, c.shares, a.hidden); err != nil {
		return nil, err
	}
	for _, sh := range c.shares {
		a.shares = append(a.shares, sh.path)
	}
	a.bound = make(map[string]string, len(c.trees))
	for _, t := range c.trees {
		if a.bound[filepath.Clean(t.target)], err = s.attach(t.file); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// newConfig mounts everything in the stage and answers what libcontainer
// shall make of it.
func newConfig(spec *Spec, s *stage) (*configs.Config, error) {
	a, err := s.assemble(spec, func(layers) error { return nil })
	if err != nil {
		return nil, err
	}
	return libraryConfig(spec, s, a.root, mountList(a.hidden, a.bound))
}

// ErrHostNamespace is returned by Start in the host's own mount namespace,
// where its mounts would cover the host's directories.
var ErrHostNamespace = errors.New("containers are started in a private mount namespace only")

func refuseHostNamespace() error {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("look at the mount namespace: %w", err)
	}
	for _, other := range []int{1, os.Getppid()} {
		if host, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", other)); err == nil && host == own {
			return ErrHostNamespace
		}
	}
	return nil
}

// Isolate makes sure that mounts made from now on stay in this process's own
// mount namespace, while what the host unmounts vanishes here too. It fails
// with ErrHostNamespace when the namespace is the host's.
func Isolate() error {
	if err := refuseHostNamespace(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("part from the host's mounts: %w", err)
	}
	return nil
}

package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// The sizes of file systems to which no job but root's can write.
const (
	devSize = "64k"
	runSize = "64m"
)

// privateDirs are new in every container, so nothing of the host below
// them is hidden or bound as part of the root.
var privateDirs = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp"}

func isPrivate(path string) bool {
	return slices.ContainsFunc(privateDirs, func(dir string) bool { return within(path, dir) })
}

// neverBound cannot be a work directory or a home: they belong to the system, or are
// private.
var neverBound = []string{
	"/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media",
	"/mnt", "/opt", "/run", "/sbin", "/srv", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp",
}

// nameServices are the places where the host's programs ask who a user is.
var nameServices = []string{"/run/nscd", "/run/systemd/userdb", "/var/lib/sss/pipes"}

// mostPtys is how many terminals a container may open. The kernel has 4096 for
// all.
const mostPtys = 128

// tree is a cloned mount that libcontainer mounts at target, in one of the
// file systems that it makes.
type tree struct {
	file   *os.File
	target string
	chosen bool // by the job's user
}

// cloned is everything that a container's root is made of.
type cloned struct {
	lower  *os.File   // the host's root, or
	lowers []*os.File // those of the root that the user brings, the lowest first
	layers []layer    // mounted before libcontainer sees the root
	trees  []tree     // mounted by libcontainer
}

// cloneAll clones everything that will be bound, before the staging
// area covers anything.
func (s *stage) cloneAll(spec *Spec) (c cloned, err error) {
	var mounts []hostMount
	if spec.Root != nil {
		err = s.cloneUserRoot(spec, &c)
	} else if c.lower, err = s.clone("/", nil, cloneOptions{idmap: true}); err == nil {
		mounts, err = hostMounts(append(slices.Clone(spec.HideDirs), spec.Dir), spec.User.UID)
	}
	if err != nil {
		return c, err
	}
	add := func(path string, file *os.File, target string, o cloneOptions) {
		if err != nil {
			return
		}
		var t *os.File
		if t, err = s.clone(path, file, o); err == nil {
			c.trees = append(c.trees, tree{file: t, target: target})
		}
	}
	if !spec.PrivateNetwork { // otherwise it is mounted in the job's network: see mountList
		const sysAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
		add("/sys", nil, "/sys", cloneOptions{attr: sysAttr})
	}
	add(spec.RunDir, nil, pid1.Dir, cloneOptions{attr: unix.MOUNT_ATTR_NOSUID})
	add(spec.InitPath, nil, initPath, cloneOptions{attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
	for _, path := range existing(append(slices.Clone(nameServices), resolverDir()...)) {
		if isPrivate(path) {
			add(path, nil, path, cloneOptions{recursive: true, attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		}
	}
	for _, path := range spec.Binds {
		if isPrivate(path) {
			add(path, nil, path, cloneOptions{recursive: true, idmap: true, attr: unix.MOUNT_ATTR_NOSUID})
		}
	}
	for _, d := range spec.Devices {
		if err == nil {
			err = checkDevice(&d)
		}
		add(d.Path, nil, d.ContainerPath, cloneOptions{})
	}
	if err != nil {
		return c, err
	}
	for _, f := range spec.Files {
		t, err := s.clone(f.File.Name(), f.File, cloneOptions{})
		if err != nil {
			return c, chosen(f.File.Name(), err)
		}
		c.trees = append(c.trees, tree{file: t, target: f.Target, chosen: true})
	}
	return c, s.cloneLayers(spec, mounts, &c)
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
	if err := d.check(&stat); err != nil {
		return fmt.Errorf("device %s: %w", d.Path, err)
	}
	if !within(filepath.Clean(d.ContainerPath), "/dev") || d.ContainerPath == "/dev" {
		return fmt.Errorf("device %s cannot be shown as %q, which is not below /dev", d.Path, d.ContainerPath)
	}
	return nil
}

// mountList answers what libcontainer mounts over the root, parents first. For a job
// with its own network it includes /sys: what is below /sys/class/net belongs to
// the network in which it was mounted.
func mountList(bound map[string]string, privateNetwork bool) []*configs.Mount {
	mounts := []*configs.Mount{
		{Destination: "/proc", Source: "proc", Device: "proc", Flags: nosuid | noexec | nodev},
		{Destination: "/dev", Source: "tmpfs", Device: "tmpfs", Flags: nosuid | unix.MS_STRICTATIME, Data: "mode=755,size=" + devSize},
		{Destination: "/dev/pts", Source: "devpts", Device: "devpts", Flags: nosuid | noexec, Data: fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,gid=5,max=%d", mostPtys)},
		{Destination: "/dev/shm", Source: "shm", Device: "tmpfs", Flags: nosuid | nodev, Data: "mode=1777"},
		{Destination: "/dev/mqueue", Source: "mqueue", Device: "mqueue", Flags: nosuid | noexec | nodev},
		{Destination: "/run", Source: "tmpfs", Device: "tmpfs", Flags: nosuid | nodev, Data: "mode=0755,size=" + runSize},
	}
	if privateNetwork {
		mounts = append(mounts, &configs.Mount{Destination: "/sys", Source: "sysfs", Device: "sysfs", Flags: nosuid | noexec | nodev | unix.MS_RDONLY})
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
	root  string              // path of the overlay, with the layers mounted in it
	bound map[string]string   // what libcontainer mounts: path inside to path in the stage
	given map[string]*os.File // the root of every mount that was made, by its path inside
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
	l, err := s.makeLayers(spec.LayerDir)
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
		c.trees = append(c.trees, tree{file: t, target: target})
	}
	if err := s.mount(append([]string{spec.Dir, spec.RunDir}, spec.Keep...)); err != nil {
		return nil, err
	}
	a := &assembled{bound: make(map[string]string, len(c.trees)), given: make(map[string]*os.File, len(c.trees)+len(c.layers))}
	if a.root, err = s.mountLower(&c, l); err != nil {
		return nil, err
	}
	for _, t := range c.trees {
		target := filepath.Clean(t.target)
		path, err := s.attach(t.file)
		if err != nil && t.chosen {
			err = chosen(t.file.Name(), err)
		}
		if err != nil {
			return nil, err
		}
		a.bound[target], a.given[target] = path, t.file
	}
	if spec.Root != nil {
		supplied, err := s.supplyUserRoot(spec, a)
		if err != nil {
			return nil, err
		}
		c.layers = append(supplied, c.layers...)
	}
	return a, s.mountLayers(spec, a, c.layers)
}

// mountLower mounts the overlay over what is below it.
func (s *stage) mountLower(c *cloned, l layers) (string, error) {
	if c.lower != nil {
		path, err := s.attach(c.lower)
		if err != nil {
			return "", err
		}
		return s.mountRoot(path, l)
	}
	paths := make([]string, len(c.lowers))
	for i, tree := range c.lowers {
		var err error
		if paths[i], err = s.attachAs(tree, true); err != nil {
			return "", err
		}
	}
	return s.mountUserRoot(paths, l)
}

// newConfig mounts everything in the stage and answers libcontainer's
// configuration.
func newConfig(spec *Spec, s *stage) (*configs.Config, error) {
	a, err := s.assemble(spec, func(layers) error { return nil })
	if err != nil {
		return nil, err
	}
	return libraryConfig(spec, s, a.root, mountList(a.bound, spec.PrivateNetwork))
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

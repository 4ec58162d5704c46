package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Tried is what Try found out. A nil error means that it works.
type Tried struct {
	UserNamespace error // whether one can be made, with the map of a job
	Root          error // whether the host's root can be idmapped
	Overlay       error // whether the container's root can be mounted
	Disk          error // whether a disk of a job's own can be made and mounted
	Mounts        []TriedMount
}

// TriedMount is a further file system of the host that jobs see.
type TriedMount struct {
	Path    string
	Type    string // "ext4", "nfs4"
	Network bool   // its server may be away; it is bound as it is
	Idmap   error  // why it cannot be idmapped; nil for one of the network
}

// Try does for an ordinary user what Start does with the host's file systems,
// one after the other, and tells each outcome. Layers of the root are made in
// dir, on a Disk there unless what jobs write is unbounded, as for Start. What lies at or below one of
// hide is not shown to jobs. The
// caller is in a mount namespace of its own (see Isolate), with which all that
// was mounted vanishes; it removes dir.
func Try(dir string, user User, hide []string, unbounded bool) (t Tried) {
	stage, err := newStage(&Spec{User: user})
	if err != nil {
		return Tried{UserNamespace: err}
	}
	defer func() {
		if err := stage.close(); err != nil && t.Overlay == nil {
			t.Overlay = err
		}
	}()
	t.Root = stage.tryIdmap("/")
	layers := dir
	if !unbounded {
		var disk *Disk
		if disk, t.Disk = tryDisk(dir); disk != nil {
			defer func() { t.Disk = disk.Discard() }()
			layers = disk.at
		}
	}
	t.Mounts, t.Overlay = stage.tryMounts(append(hide, dir))
	if t.Overlay == nil {
		t.Overlay = stage.tryRoot(layers)
	}
	return t
}

// tryDisk makes a small one, and mounts it below dir.
func tryDisk(dir string) (*Disk, error) {
	file, at := filepath.Join(dir, "disk.ext4"), filepath.Join(dir, "disk")
	if err := MakeDisk(context.Background(), file, LeastDiskBytes); err != nil {
		return nil, err
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		return nil, fmt.Errorf("make a mount point: %w", err)
	}
	return MountDisk(file, at)
}

// tryIdmap is clone's idmapping, with its error.
func (s *stage) tryIdmap(path string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_NO_AUTOMOUNT)
	if err != nil {
		return &os.PathError{Op: "clone the mount of", Path: path, Err: err}
	}
	defer unix.Close(fd)
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(s.userns.Fd()),
	})
	if err != nil {
		return &os.PathError{Op: "idmap the mount of", Path: path, Err: err}
	}
	return nil
}

func (s *stage) tryMounts(hide []string) (tried []TriedMount, err error) {
	mounts, err := hostMounts(hide, 0)
	for _, m := range mounts {
		one := TriedMount{Path: m.path, Type: m.kind, Network: m.network}
		if !m.network {
			one.Idmap = s.tryIdmap(m.path)
		}
		tried = append(tried, one)
	}
	return tried, err
}

// tryRoot mounts the overlay of a container, and unmounts it.
func (s *stage) tryRoot(dir string) error {
	lower, err := s.clone("/", nil, cloneOptions{idmap: true})
	if err != nil {
		return err
	}
	l, err := s.makeLayers(dir)
	if err != nil {
		return err
	}
	if err := s.mount([]string{dir}); err != nil {
		return err
	}
	lowerPath, err := s.attach(lower)
	if err != nil {
		return err
	}
	root, err := s.mountRoot(lowerPath, l)
	if err != nil {
		return err
	}
	// To write to it is what finds a file system that overlays may not use.
	err = os.WriteFile(root+"/gleaner-doctor", nil, 0o600)
	if detach := unix.Unmount(root, unix.UMOUNT_NOFOLLOW); err == nil && detach != nil {
		err = &os.PathError{Op: "unmount", Path: root, Err: detach}
	}
	return err
}

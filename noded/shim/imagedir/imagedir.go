// Package imagedir is the directory of the image from which an allocation resumes.
//
// Contract: the directory lives from Make until Drop. What CRIU reads in one go, the
// memory of processes, is not unpacked: it is read from the store, unpacked and compared
// with the manifest while CRIU reads it (stream.go). What nobody needs here is left out.
// Everything else, and on a node without FUSE also the memory, is unpacked first. If the node has plenty of memory,
// it is a file system in memory, with large pages if the kernel has them: an image is
// written there in a fraction of the time, and nothing of it goes to the disk. Only one
// supervisor of a node has one at a time, so none counts memory as free that another one
// is about to fill. Only the caller's mount namespace sees it.
package imagedir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/partfs"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// Name is the directory's, in the allocation's directory.
const Name = "restored"

// LockFile, in the state directory, is the lock of the supervisor that has an image in
// memory.
const LockFile = "image-in-memory.lock"

// Dir is such a directory. nil is that of an allocation without an image.
type Dir struct {
	Path     string
	log      *slog.Logger
	inMemory *os.File      // the lock; nil = the directory is on the disk
	feed     *store.Feed   // nil = nothing is streamed
	parts    *partfs.Mount // shows what is
}

// Make makes the directory, empty, for an image of so many bytes.
func Make(d bundle.Dir, stateDir string, bytes uint64, log *slog.Logger) (*Dir, error) {
	i := &Dir{Path: d.Path(Name), log: log}
	if err := remove.Tree(i.Path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(i.Path, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the image: %w", err)
	}
	if err := i.useMemory(filepath.Join(stateDir, LockFile), bytes); err != nil {
		log.Info("the image is unpacked on the disk", "bytes", bytes, "why_not_in_memory", err)
	} else {
		log.Info("the image is unpacked in memory", "bytes", bytes)
	}
	return i, nil
}

// useMemory mounts a file system in memory, or answers why not.
func (d *Dir) useMemory(lock string, bytes uint64) error {
	held, err := bundle.Lock(lock)
	if errors.Is(err, bundle.ErrAlive) {
		return errors.New("another image is in memory at this moment")
	}
	if err != nil {
		return err
	}
	if err = EnoughMemory(bytes); err == nil {
		err = mountMemory(d.Path, bytes)
	}
	if err != nil {
		return errors.Join(err, held.Close())
	}
	d.inMemory = held
	return nil
}

func mountMemory(path string, bytes uint64) error {
	const slack = 64 << 20 // a file's last page, and directories
	options := fmt.Sprintf("mode=0700,size=%d", bytes+slack)
	err := unix.Mount("gleaner", path, "tmpfs", unix.MS_NOSUID, options+",huge=within_size")
	if errors.Is(err, unix.EINVAL) { // a kernel without large pages
		err = unix.Mount("gleaner", path, "tmpfs", unix.MS_NOSUID, options)
	}
	if err != nil {
		return &os.PathError{Op: "mount tmpfs on", Path: path, Err: err}
	}
	return nil
}

// Drop ends the streaming, and frees the memory once nothing in the container uses it any
// longer. It may be called again.
func (d *Dir) Drop() {
	if err := d.Stop(); err != nil {
		d.log.Warn("what was mounted to read an image stays until the job ends: nothing to do unless that repeats; then see the error", "error", err)
	}
	if d == nil || d.inMemory == nil {
		return
	}
	err := unix.Unmount(d.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil {
		err = &os.PathError{Op: "unmount", Path: d.Path, Err: err}
	}
	if err := errors.Join(err, d.inMemory.Close()); err != nil {
		d.log.Warn("the memory of an image is freed only when the job ends: until then the node has less of it", "error", err)
	}
	d.inMemory = nil
}

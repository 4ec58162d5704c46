package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// restoreDir is where the image is from which the part goes on, in the part's
// directory. It is needed for a moment only. Where the node has plenty of memory
// it is a file system in memory, with large pages if the kernel has them: to write
// an image there takes a fraction of the time, and nothing of it goes to the disk.
const restoreDir = "restored"

// memoryLock, in the state directory, is held by the one supervisor of a node that
// has an image in memory: so memory that was seen to be free is not taken twice.
const memoryLock = "image-in-memory.lock"

// spareShare: of the node's memory one part in so many stays free, for what other
// jobs take meanwhile.
const spareShare = 8

// imageDir is the directory of an image that is restored.
type imageDir struct {
	path     string
	inMemory *os.File // the lock; nil = it is on the disk
}

// makeImageDir makes the directory for an image, empty.
func (p *part) makeImageDir(m *checkpoint.Manifest) error {
	p.image.path = p.dir.path(restoreDir)
	if err := removeTree(p.image.path); err != nil {
		return err
	}
	if err := os.Mkdir(p.image.path, 0o700); err != nil {
		return fmt.Errorf("make a directory for the image: %w", err)
	}
	bytes := uint64(m.DataBytes())
	if err := p.image.useMemory(filepath.Join(p.settings.StateDir, memoryLock), bytes); err != nil {
		p.log.Info("the image is unpacked on the disk", "bytes", bytes, "why_not_in_memory", err)
		return nil
	}
	p.log.Info("the image is unpacked in memory", "bytes", bytes)
	return nil
}

// useMemory mounts a file system in memory, or answers why not.
func (d *imageDir) useMemory(lock string, bytes uint64) error {
	held, err := takeLock(lock)
	if errors.Is(err, ErrAlive) {
		return errors.New("another image is in memory at this moment")
	}
	if err != nil {
		return err
	}
	if err = enoughMemory(bytes); err == nil {
		err = mountMemory(d.path, bytes)
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

// enoughMemory answers why an image is not to be in memory, or nil.
func enoughMemory(bytes uint64) error {
	available, err := availableMemory()
	if err != nil {
		return err
	}
	var machine unix.Sysinfo_t
	if err := unix.Sysinfo(&machine); err != nil {
		return fmt.Errorf("see how much memory the node has: %w", err)
	}
	room, err := cgroup.Room()
	if err != nil {
		return err
	}
	return memory{available: available, total: uint64(machine.Totalram) * uint64(machine.Unit), room: room}.holds(bytes)
}

// memory is what a node has of it, in bytes.
type memory struct {
	available uint64
	total     uint64
	room      uint64 // below the limits of the supervisor's own control group
}

// holds: the job takes as much again while the image is still there, and the image
// itself is counted as the supervisor's.
func (m memory) holds(bytes uint64) error {
	if needed := 2*bytes + m.total/spareShare; needed > m.available {
		return fmt.Errorf("%s of memory are available, and %s are to be", spec.FormatSize(m.available), spec.FormatSize(needed))
	}
	if needed := bytes + bytes/spareShare + 256<<20; needed > m.room {
		return fmt.Errorf("%s of memory are left below the limits of the daemon's control group, and %s are to be", spec.FormatSize(m.room), spec.FormatSize(needed))
	}
	return nil
}

// drop gives the memory back, as soon as nothing in the container uses it any more.
// It may be called again.
func (d *imageDir) drop() error {
	if d.inMemory == nil {
		return nil
	}
	defer func() { d.inMemory = nil }()
	if err := unix.Unmount(d.path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return errors.Join(&os.PathError{Op: "unmount", Path: d.path, Err: err}, d.inMemory.Close())
	}
	return d.inMemory.Close()
}

// dropImageDir is called when the part goes on, or does not.
func (p *part) dropImageDir() {
	if err := p.image.drop(); err != nil {
		p.log.Warn("the memory of an image is given back only when the job ends: until then the node has so much less", "error", err)
	}
}

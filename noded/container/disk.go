package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LeastDiskBytes is the smallest file system that MakeDisk makes.
const LeastDiskBytes = 16 << 20

// diskReserve of a disk is only for root: when a job that has filled its disk moves,
// the target writes a little more than the job had.
const diskReserve = 2 << 20

// bytesPerInode is how many bytes of a disk there are for each of its files.
const bytesPerInode = 8192

// diskFeatures are named one by one, so that a disk is the same on every node,
// whatever its mke2fs.conf says. There is no journal, because nobody reads an
// allocation's disk after a crash of the machine, and no second superblock.
const diskFeatures = "none,extents,flex_bg,filetype,dir_index,ext_attr,large_file,huge_file,sparse_super2,uninit_bg,dir_nlink,extra_isize,64bit"

// Disk is a file system of a fixed size in a file. It holds what a job writes into its
// root, /tmp, /var/tmp and /run/gleaner, so the kernel bounds that, in bytes and
// in files. The file has holes: on the host's disk it occupies what the job has
// written. The loop device frees itself with the last mount, so nothing of it stays,
// whoever is killed.
type Disk struct {
	tree *os.File // the root of its mount
	at   string   // where it is mounted; "" = nowhere
}

// MakeDisk makes the file of a disk, with an empty ext4 in it.
func MakeDisk(ctx context.Context, file string, bytes uint64) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the job's disk: %w", err)
	}
	defer f.Close()
	size := max(bytes, LeastDiskBytes) &^ 4095
	if err := f.Truncate(int64(size)); err != nil {
		return fmt.Errorf("make the job's disk of %d bytes: %w", size, err)
	}
	return mkfs(ctx, file, size)
}

func mkfs(ctx context.Context, file string, size uint64) error {
	program, err := MkfsPath()
	if err != nil {
		return err
	}
	reserve := strconv.FormatFloat(100*diskReserve/float64(size), 'f', 6, 64)
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-b", "4096", "-I", "256", "-i", strconv.Itoa(bytesPerInode), "-m", reserve,
		"-O", diskFeatures, "-E", "nodiscard,lazy_itable_init=1,num_backup_sb=0,root_owner=0:0", file)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "MKE2FS_CONFIG=/dev/null")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil {
		if strings.Contains(complaints.String(), "No space left") {
			err = unix.ENOSPC
		}
		lines := strings.Split(strings.TrimSpace(complaints.String()), "\n")
		return fmt.Errorf("make the job's disk: mkfs.ext4: %w: %s", err, lines[len(lines)-1])
	}
	return nil
}

// MkfsPath answers where mkfs.ext4 is.
func MkfsPath() (string, error) {
	const name = "mkfs.ext4"
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: install e2fsprogs, with which the disks of jobs are made", err)
}

// OpenDisk mounts a disk without a place: its descriptor, or Path, leads to it, and it
// is unmounted when it is closed.
func OpenDisk(file string, readOnly bool) (*Disk, error) {
	loop, err := attachLoop(file, readOnly)
	if err != nil {
		return nil, fmt.Errorf("attach a loop device to the job's disk: %w", err)
	}
	defer loop.Close()
	fd, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("mount the job's disk: ext4: %w", err)
	}
	defer unix.Close(fd)
	// Otherwise the kernel would write out all empty tables of inodes.
	err = errors.Join(unix.FsconfigSetString(fd, "source", loop.Name()), unix.FsconfigSetFlag(fd, "noinit_itable"))
	attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if readOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
		err = errors.Join(err, unix.FsconfigSetFlag(fd, "ro"))
	}
	if err == nil {
		err = unix.FsconfigCreate(fd)
	}
	if err != nil {
		return nil, fmt.Errorf("mount the job's disk by %s: %w", loop.Name(), err)
	}
	mount, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, fmt.Errorf("mount the job's disk: %w", err)
	}
	return &Disk{tree: os.NewFile(uintptr(mount), file)}, nil
}

// MountDisk mounts a disk on a directory, in the caller's mount namespace, which is
// not the host's.
func MountDisk(file, at string) (*Disk, error) {
	if err := refuseHostNamespace(); err != nil {
		return nil, err
	}
	d, err := OpenDisk(file, false)
	if err != nil {
		return nil, err
	}
	if err := unix.MoveMount(int(d.tree.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		d.tree.Close()
		return nil, fmt.Errorf("mount the job's disk on %s: %w", at, err)
	}
	d.at = at
	return d, nil
}

// Path is a path of the disk's root, for this process.
func (d *Disk) Path() string { return "/proc/self/fd/" + strconv.Itoa(int(d.tree.Fd())) }

// Used is how many bytes of it are in use.
func (d *Disk) Used() (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(d.tree.Fd()), &fs); err != nil {
		return 0, fmt.Errorf("see how full the job's disk is: %w", err)
	}
	return (fs.Blocks - fs.Bfree) * uint64(fs.Bsize), nil
}

// Discard unmounts a disk that nobody needs any longer. What has not been written to the
// host's disk yet is dropped, which may be gigabytes.
func (d *Disk) Discard() error {
	how := uint32(withoutLog)
	_ = unix.IoctlSetPointerInt(int(d.tree.Fd()), shutDown, int(how)) // if it fails, unmounting is only slower
	return d.Close()
}

// shutDown and withoutLog are EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH of
// the kernel's fs/ext4/ext4.h.
const (
	shutDown   = 0x8004587d
	withoutLog = 2
)

// Close unmounts the disk.
func (d *Disk) Close() error {
	err := d.tree.Close()
	if d.at == "" {
		return err
	}
	if unmountErr := unix.Unmount(d.at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); unmountErr != nil {
		err = errors.Join(err, fmt.Errorf("unmount the job's disk from %s: %w", d.at, unmountErr))
	}
	return err
}

// attachLoop answers an open loop device of the file, which frees itself once
// nothing has it open.
func attachLoop(file string, readOnly bool) (*os.File, error) {
	mode := os.O_RDWR
	config := unix.LoopConfig{Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
	if readOnly {
		mode = os.O_RDONLY
		config.Info.Flags |= unix.LO_FLAGS_READ_ONLY
	}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], file)
	backing, err := os.OpenFile(file, mode|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	config.Fd = uint32(backing.Fd())
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: load the kernel's module loop", err)
	}
	defer control.Close()
	for deadline := time.Now().Add(loopPatience); ; {
		loop, err := configureLoop(control, &config, mode)
		// Another process may have taken the device meanwhile.
		if err == nil || !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENXIO) || time.Now().After(deadline) {
			return loop, err
		}
	}
}

// loopPatience bounds how long other processes may take each free loop device first.
const loopPatience = 10 * time.Second

func configureLoop(control *os.File, config *unix.LoopConfig, mode int) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, &os.PathError{Op: "find a free loop device with", Path: control.Name(), Err: err}
	}
	loop, err := os.OpenFile("/dev/loop"+strconv.Itoa(number), mode, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), config); err != nil {
		loop.Close()
		return nil, &os.PathError{Op: "set up", Path: loop.Name(), Err: err}
	}
	return loop, nil
}

// DiskInUse says whether a loop device still has the file: its mount, or the processes
// in it, may take a moment to end.
func DiskInUse(file string) (bool, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(files, func(path string) bool {
		name, err := os.ReadFile(path)
		return err == nil && strings.TrimSuffix(string(name), "\n") == file
	}), nil
}

package store

import (
	"errors"
	"io"
	"math"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// unixDisk is the real disk: a directory that is held open.
type unixDisk struct {
	top  int
	path string // for errors
}

// beneath opens a name below an open directory, through no link and no mount.
func beneath(top int, name string, flags int, mode uint32) (int, error) {
	if name == "" {
		name = "."
	}
	how := unix.OpenHow{
		Flags:   uint64(flags) | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	for {
		fd, err := unix.Openat2(top, name, &how)
		// EAGAIN: something was renamed while the name was walked.
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		return fd, err
	}
}

func (u *unixDisk) fault(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: operation, Path: path.Join(u.path, name), Err: err}
}

// in calls do with the open directory that name lies in, and its last element.
func (u *unixDisk) in(operation, name string, do func(parent int, last string) error) error {
	above, last := path.Split(name)
	parent, err := beneath(u.top, path.Clean(above), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return u.fault(operation, name, err)
	}
	defer unix.Close(parent)
	return u.fault(operation, name, do(parent, last))
}

func (u *unixDisk) MakeDirectory(name string) error {
	return u.in("mkdir", name, func(parent int, last string) error { return unix.Mkdirat(parent, last, 0o700) })
}

func (u *unixDisk) Names(name string) ([]string, error) {
	fd, err := beneath(u.top, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, u.fault("list", name, err)
	}
	directory := os.NewFile(uintptr(fd), path.Join(u.path, name))
	defer directory.Close()
	return directory.Readdirnames(-1)
}

func (u *unixDisk) Status(name string) (status, error) {
	fd, err := beneath(u.top, name, unix.O_PATH, 0)
	if err != nil {
		return status{}, u.fault("stat", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return status{}, u.fault("stat", name, err)
	}
	return status{
		Directory: st.Mode&unix.S_IFMT == unix.S_IFDIR,
		Bytes:     st.Blocks * 512,
		Inode:     st.Ino,
		Links:     uint64(st.Nlink),
		Changed:   time.Unix(st.Mtim.Unix()),
	}, nil
}

func (u *unixDisk) Create(name string) (newFile, error) {
	fd, err := beneath(u.top, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, u.fault("create", name, err)
	}
	return &unixFile{File: os.NewFile(uintptr(fd), path.Join(u.path, name))}, nil
}

func (u *unixDisk) Open(name string) (oldFile, error) {
	// Not blocking: a pipe in a file's place must not hold anybody up.
	fd, err := beneath(u.top, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, u.fault("open", name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return nil, u.fault("open", name, errors.Join(err, errNoFile))
	}
	// Read from its begin to its end, nearly: the kernel reads further ahead.
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_SEQUENTIAL)
	return &unixFile{File: os.NewFile(uintptr(fd), path.Join(u.path, name))}, nil
}

var errNoFile = errors.New("it is not a file")

func (u *unixDisk) Link(old, name string) error {
	return u.in("link", old, func(from int, oldLast string) error {
		return u.in("link", name, func(to int, newLast string) error {
			return unix.Linkat(from, oldLast, to, newLast, 0)
		})
	})
}

func (u *unixDisk) Rename(old, name string) error {
	return u.in("rename", old, func(from int, oldLast string) error {
		return u.in("rename", name, func(to int, newLast string) error {
			return unix.Renameat(from, oldLast, to, newLast)
		})
	})
}

func (u *unixDisk) Remove(name string) error {
	return u.in("remove", name, func(parent int, last string) error { return unix.Unlinkat(parent, last, 0) })
}

func (u *unixDisk) RemoveDirectory(name string) error {
	return u.in("remove", name, func(parent int, last string) error {
		return unix.Unlinkat(parent, last, unix.AT_REMOVEDIR)
	})
}

func (u *unixDisk) SyncDirectory(name string) error {
	fd, err := beneath(u.top, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return u.fault("sync", name, err)
	}
	defer unix.Close(fd)
	if err := unix.Fsync(fd); err != nil && !errors.Is(err, unix.EINVAL) {
		return u.fault("sync", name, err) // EINVAL: one whose names are durable by themselves
	}
	return nil
}

func (u *unixDisk) Touch(name string) error {
	return u.in("touch", name, func(parent int, last string) error {
		now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		return unix.UtimesNanoAt(parent, last, now, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (u *unixDisk) Free() (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(u.top, &fs); err != nil {
		return 0, u.fault("statfs", "", err)
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// unixFile is a file that is being written, or a whole one.
type unixFile struct {
	*os.File
	begun, pushed int64 // what is being written out lies between these

	once   sync.Once
	direct *os.File // past the page cache; nil = that cannot be done, or would be slower
	refuse atomic.Bool
}

// ReadDirect implements oldFile. What is in the page cache already is read from there.
func (f *unixFile) ReadDirect(p []byte, at int64) (int, error) {
	f.once.Do(func() {
		if !f.isRatherCold() {
			return
		}
		fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
		if err == nil {
			f.direct = os.NewFile(uintptr(fd), f.Name())
		}
	})
	if f.direct != nil && !f.refuse.Load() {
		n, err := unix.Pread(int(f.direct.Fd()), p, at)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			return 0, io.EOF
		}
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EINTR) {
			return 0, &os.PathError{Op: "read", Path: f.Name(), Err: err}
		}
		f.refuse.Store(errors.Is(err, unix.EINVAL)) // its units are others
	}
	return f.ReadAt(p, at)
}

// isRatherCold says whether little of the file is in the page cache: its index, say.
func (f *unixFile) isRatherCold() bool {
	var state unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &state, 0)
	size, sized := f.Size()
	return err == nil && sized == nil && int64(state.Cache)*int64(os.Getpagesize()) <= size/4 // older kernels do not say
}

// Close closes both.
func (f *unixFile) Close() error {
	if f.direct != nil {
		_ = f.direct.Close() // it was only read
	}
	return f.File.Close()
}

// underWay is how much may be on its way to the disk, at the least: the disk is
// never without work while the writer has some more for it.
const underWay = 48 << 20

func (f *unixFile) Push() error {
	end, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	// A file system that cannot do it writes everything at Sync.
	_ = unix.SyncFileRange(fd, f.pushed, end-f.pushed, unix.SYNC_FILE_RANGE_WRITE)
	if done := f.pushed - underWay; done > f.begun {
		_ = unix.SyncFileRange(fd, f.begun, done-f.begun,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		_ = unix.Fadvise(fd, f.begun, done-f.begun, unix.FADV_DONTNEED)
		f.begun = done
	}
	f.pushed = end
	return nil
}

func (f *unixFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	f.Forget(math.MaxInt64)
	return nil
}

func (f *unixFile) Forget(before int64) {
	_ = unix.Fadvise(int(f.Fd()), 0, before, unix.FADV_DONTNEED)
}

func (f *unixFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

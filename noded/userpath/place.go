package userpath

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// kernelMagics are file systems whose files are the kernel's or a process's
// own. Opened by a daemon some of them would answer for the daemon.
var kernelMagics = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
	unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.EFIVARFS_MAGIC,
}

// kernelTypes are the types of file systems in which there are no files of
// anybody, but the kernel's own.
var kernelTypes = []string{
	"proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs",
	"pstore", "bpf", "configfs", "fusectl", "autofs", "binfmt_misc", "rpc_pipefs", "nsfs", "nfsd", "efivarfs", "selinuxfs", "resctrl",
}

// IsKernels says whether file systems of a type hold what is the kernel's own,
// such as processes, devices or control groups.
func IsKernels(fsType string) bool { return slices.Contains(kernelTypes, fsType) }

// ErrNowhere is returned, wrapped, by Where for what lies in no mount that this
// process sees, or has been deleted.
var ErrNowhere = errors.New("lies in no file system that is mounted here, or was deleted")

// Place is where an open file lies, whatever name has led to it.
type Place struct {
	Path  string // without any link
	Mount int    // its id in this process's mount table
	Type  string // of the file system
}

// Kernels says whether the place is in one of the kernel's own file systems.
func (p Place) Kernels() bool { return IsKernels(p.Type) }

// Where answers where an open file lies. It asks no file system: one whose
// server is away, or that root may not look at, holds nobody up.
func Where(file *os.File) (Place, error) {
	id, err := MountID(file)
	if err != nil {
		return Place{}, err
	}
	path, err := os.Readlink(link(file))
	if err != nil {
		return Place{}, fmt.Errorf("see where %s lies: %w", file.Name(), err)
	}
	infos, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.ID != id, m.ID == id })
	if err != nil {
		return Place{}, fmt.Errorf("read mounts: %w", err)
	}
	if len(infos) == 0 || strings.HasSuffix(path, " (deleted)") || !within(path, infos[0].Mountpoint) {
		return Place{}, fmt.Errorf("%s %w", file.Name(), ErrNowhere)
	}
	return Place{Path: path, Mount: id, Type: infos[0].FSType}, nil
}

// MountID answers in which mount an open file lies, and asks no file system.
func MountID(file *os.File) (int, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(int(file.Fd())))
	if err != nil {
		return 0, fmt.Errorf("see where %s is mounted: %w", file.Name(), err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("see where %s is mounted: the kernel does not say", file.Name())
}

// MountOf answers the mount in which an open file lies, and asks no file system.
func MountOf(file *os.File) (*mountinfo.Info, error) {
	id, err := MountID(file)
	if err != nil {
		return nil, err
	}
	infos, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.ID != id, m.ID == id })
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	if len(infos) == 0 {
		return nil, fmt.Errorf("%s %w", file.Name(), ErrNowhere)
	}
	return infos[0], nil
}

// OpenMount opens the root of a mount of this process's table by its path, through
// no link, and says whether that is what is there now: who owns a directory
// above may have put something else in its place. It asks no file system.
func OpenMount(path string, id int) (*os.File, error) {
	file, err := open(unix.AT_FDCWD, path, unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	is, err := MountID(file)
	if err == nil && is != id {
		err = &os.PathError{Op: "open", Path: path, Err: unix.ESTALE}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// within says whether path is dir or lies below it.
func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

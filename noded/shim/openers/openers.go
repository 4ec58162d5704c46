// Package openers finds processes that have a device open: what the kernel refuses them
// from now on, they have all the same.
//
// Contract: it asks no file server, and opens nothing. The processes are frozen, or what
// they open meanwhile may be missed. A descriptor that is on its way in a socket belongs
// to no process and is not found.
package openers

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is a device, whatever its files are called.
type Device struct {
	Type         rune // 'c' or 'b'
	Major, Minor uint32
}

// Opener is a process that has a device open, or mapped.
type Opener struct {
	PID     int
	Program string // its name, as it says
	Path    string // of the device, as the process sees it
}

// Find answers the first of the processes, ids of the host, that has one of the devices
// open; nil = none has.
func Find(pids []int, devices []Device) (*Opener, error) {
	if len(devices) == 0 {
		return nil, nil
	}
	search := search{devices: map[Device]bool{}, mapped: map[string]bool{}}
	for _, d := range devices {
		search.devices[d] = true
	}
	for _, pid := range pids {
		path, err := search.process(pid)
		switch {
		case gone(err):
		case err != nil:
			return nil, fmt.Errorf("see which devices process %d has open: %w", pid, err)
		case path != "":
			name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
			return &Opener{pid, strings.TrimSpace(string(name)), path}, nil
		}
	}
	return nil, nil
}

type search struct {
	devices map[Device]bool
	mapped  map[string]bool // files that were looked at, by file system and inode
}

// process answers the device that a process has open; "" = none.
func (s *search) process(pid int) (path string, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	tasks, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return "", err
	}
	// Threads may have descriptors of their own, and a first thread that has ended has none.
	seen := 0
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil || seen != 0 && shareDescriptors(seen, tid) {
			continue
		}
		seen = tid
		if path, err := s.descriptors(filepath.Join(dir, "task", task.Name(), "fd")); path != "" || err != nil && !gone(err) {
			return path, err
		}
	}
	return s.mappings(dir)
}

func (s *search) descriptors(dir string) (path string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		link := filepath.Join(dir, entry.Name())
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, "/") && s.isDevice(link) {
			return target, nil
		}
	}
	return "", nil
}

// mappings looks at the files that a process has mapped: each once for all processes.
func (s *search) mappings(dir string) (path string, err error) {
	file, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", nil // its end, or the process's
		}
		const named = 6 // range, access, offset, device, inode, path
		fields := strings.Fields(line)
		if len(fields) < named || !strings.HasPrefix(fields[5], "/") || s.mapped[fields[3]+" "+fields[4]] {
			continue
		}
		s.mapped[fields[3]+" "+fields[4]] = true
		if s.isDevice(filepath.Join(dir, "map_files", fields[0])) {
			return fields[5], nil
		}
	}
}

// isDevice looks at the file behind a link of proc(5). The kernel answers from what it
// knows, so that a file server that is away does not matter.
func (s *search) isDevice(link string) bool {
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat); err != nil {
		return false
	}
	d := Device{Type: 'c', Major: stat.Rdev_major, Minor: stat.Rdev_minor}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		d.Type = 'b'
	case unix.S_IFCHR:
	default:
		return false
	}
	return s.devices[d]
}

// shareDescriptors says whether two threads have the same descriptors: kcmp(2),
// KCMP_FILES. A kernel without it says no.
func shareDescriptors(a, b int) bool {
	const files = 2
	same, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), files, 0, 0, 0)
	return errno == 0 && same == 0
}

// gone says that a process has ended meanwhile.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

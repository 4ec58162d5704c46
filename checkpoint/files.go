package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Used is a file with a name that processes have mapped or open.
type Used struct {
	Path string // inside
	Link string // below /proc: leads to that very file, whatever is at Path now
	// Mapped: a process has it in its memory. Otherwise it is only open.
	Mapped  bool
	Runs    bool // as code
	Written bool // a process may write to it
	// Appends: every process that may write to it can only append.
	Appends bool
}

// UsedFiles answers what processes have mapped or open, in the order of the
// paths. It leaves out what no longer has a name, and what is not a file. The
// processes must be frozen.
func UsedFiles(pids []int) ([]Used, error) {
	found := map[string]*Used{}
	add := func(u Used) {
		known := found[u.Path]
		if known == nil {
			found[u.Path] = &u
			return
		}
		if u.Mapped && !known.Mapped {
			known.Link = u.Link
		}
		known.Mapped = known.Mapped || u.Mapped
		known.Runs = known.Runs || u.Runs
		known.Appends = (known.Appends || !known.Written) && (u.Appends || !u.Written)
		known.Written = known.Written || u.Written
	}
	for _, pid := range pids {
		err := mappedFiles(pid, add)
		if err == nil {
			err = openFiles(pid, add)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it was killed
			return nil, fmt.Errorf("list the files of process %d: %w", pid, err)
		}
	}
	used := make([]Used, 0, len(found))
	for _, u := range found {
		used = append(used, *u)
	}
	slices.SortFunc(used, func(a, b Used) int { return strings.Compare(a.Path, b.Path) })
	return used, nil
}

// hasName says whether the text of a link or a map is a path that exists.
func hasName(path string) bool {
	return filepath.IsAbs(path) && !strings.HasSuffix(path, " (deleted)") &&
		!strings.HasPrefix(path, "/memfd:") && !strings.HasPrefix(path, "/SYSV") && !strings.HasPrefix(path, "/anon_hugepage")
}

// mapping is a line of /proc/PID/maps, see proc_pid_maps(5), that has a path.
// device is written as in maps: major:minor, in hexadecimal digits.
type mapping struct{ addresses, access, device, path string }

// mappedFiles answers the files in a process's memory.
func mappedFiles(pid int, add func(Used)) error {
	return eachMapping(pid, func(m mapping) {
		if !hasName(m.path) || m.path == zeroDevice {
			return
		}
		add(Used{
			Path: m.path, Link: fmt.Sprintf("/proc/%d/map_files/%s", pid, trimZeros(m.addresses)), Mapped: true,
			Runs:    strings.Contains(m.access, "x"),
			Written: strings.Contains(m.access, "s") && strings.Contains(m.access, "w"),
		})
	})
}

// zeroDevice is what a map says of memory for which a process has mapped that device
// privately: older programs ask for memory so. It is no file, and no state.
const zeroDevice = "/dev/zero"

func eachMapping(pid int, do func(mapping)) error {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, 1<<16)
	for lines.Scan() {
		// address perms offset dev inode path
		fields := strings.Fields(lines.Text())
		if len(fields) >= 6 && strings.HasPrefix(fields[5], "/") {
			do(mapping{fields[0], fields[1], fields[3], unescape(lines.Text()[strings.Index(lines.Text(), fields[5]):])})
		}
	}
	return lines.Err()
}

// memoryDevice answers the device that backs shared memory and memfd_create(2).
// The kernel gives such memory names (/dev/zero, /SYSV00000000) at which nothing ever
// was.
var memoryDevice = sync.OnceValues(func() (string, error) {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("find the device of shared memory: %w", err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "", fmt.Errorf("find the device of shared memory: %w", err)
	}
	return fmt.Sprintf("%02x:%02x", unix.Major(stat.Dev), unix.Minor(stat.Dev)), nil
})

// trimZeros: addresses have leading zeros in maps, and none in map_files.
func trimZeros(addresses string) string {
	from, to, _ := strings.Cut(addresses, "-")
	trim := func(s string) string {
		if s = strings.TrimLeft(s, "0"); s == "" {
			return "0"
		}
		return s
	}
	return trim(from) + "-" + trim(to)
}

// unescape undoes what the kernel does to the line ends in a path.
func unescape(path string) string { return strings.ReplaceAll(path, `\012`, "\n") }

// openFiles reads /proc/PID/fd.
func openFiles(pid int, add func(Used)) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		link := filepath.Join(dir, entry.Name())
		path, err := os.Readlink(link)
		if err != nil || !hasName(path) {
			continue
		}
		info, err := os.Stat(link)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		flags, err := OpenFlags(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, entry.Name()))
		if err != nil {
			return err
		}
		written := flags&(os.O_WRONLY|os.O_RDWR) != 0
		add(Used{Path: path, Link: link, Written: written, Appends: written && flags&os.O_APPEND != 0})
	}
	return nil
}

// OpenFlags reads from /proc/PID/fdinfo/FD how a descriptor was opened.
func OpenFlags(fdinfo string) (flags int, err error) {
	text, err := os.ReadFile(fdinfo)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			_, err := fmt.Sscanf(strings.TrimSpace(value), "%o", &flags)
			return flags, err
		}
	}
	return 0, fmt.Errorf("%s has no flags", fdinfo)
}

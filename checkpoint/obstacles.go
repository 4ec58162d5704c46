package checkpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint/procstatus"
)

// Obstacle is something that keeps a tree from being saved.
type Obstacle struct {
	Pid     int    // of the process, inside; 0 = it is not known
	Program string // its name
	What    string // it does: "has a connection to 10.0.0.1:443"
	Remedy  string // in a sentence
	// Lasts: it stays as long as the program does its work.
	Lasts bool
	// Passing: as a rule, it is over after the processes have run for a moment.
	Passing bool
}

// String answers it in a sentence.
func (o Obstacle) String() string {
	if o.Pid == 0 {
		return fmt.Sprintf("it %s: %s", o.What, o.Remedy)
	}
	return fmt.Sprintf("process %d (%s) %s: %s", o.Pid, o.Program, o.What, o.Remedy)
}

// ErrObstacles is returned, wrapped, when a tree cannot be saved as it is now.
var ErrObstacles = errors.New("it cannot be saved now")

// Refuse answers an error that names the obstacles; nil when there are none. It wraps
// ErrBetween too if all of them pass.
func Refuse(found []Obstacle) error {
	if len(found) == 0 {
		return nil
	}
	passes := true
	texts := make([]string, len(found))
	for i, o := range found {
		texts[i] = o.String()
		passes = passes && o.Passing
	}
	err := fmt.Errorf("%w: %s", ErrObstacles, strings.Join(texts, "; "))
	if passes {
		return fmt.Errorf("%w: %w", ErrBetween, err)
	}
	return err
}

// Remedies that serve for several.
const (
	saveItself = "save the work in the program itself: --checkpoint=app"
	waitOrSave = "wait until it is closed, or " + saveItself
)

// maxObstacles bounds the answer.
const maxObstacles = 16

// Obstacles looks for what keeps a tree from being saved, as far as the kernel
// shows that from outside: each obstacle that it finds is certain, and there
// may be more. The processes may run meanwhile. saved says whether the file system of
// a path inside is saved with the tree, and whether no link leads to it: see Named.
//
// peers are addresses of other trees that are saved at the same instant, with whom
// connections are saved; the zero value: there are none. Nothing may pass between the trees
// from when the first is frozen until the last is restored, or goes on.
//
// It reads a few files for each process and descriptor, and the tables of the
// sockets of the tree's network: milliseconds, unless there are very many.
//
// resets says that connections which lead out of a network of the tree's own are no
// obstacle: the caller resets them after a restore.
func Obstacles(tree Tree, peers netip.Prefix, saved func(path string) bool, resets bool) ([]Obstacle, error) {
	pids, err := tree.Procs()
	if err != nil || len(pids) == 0 {
		return nil, err
	}
	s := &survey{saved: saved, peers: peers, resets: resets, sockets: map[uint64]int{}, masters: map[int]bool{}, terminals: map[int]int{}}
	s.lookForFirst(pids)
	for _, pid := range pids {
		if err := s.process(pid); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, err // a process that has ended is no obstacle
		}
	}
	s.orphanedTerminals()
	if err := s.connections(pids); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.found, func(a, b Obstacle) int {
		if a.Lasts != b.Lasts && a.Lasts {
			return -1
		} else if a.Lasts != b.Lasts {
			return 1
		}
		return a.Pid - b.Pid
	})
	return s.found[:min(len(s.found), maxObstacles)], nil
}

// survey is what was seen of a tree.
type survey struct {
	found     []Obstacle
	saved     func(path string) bool
	peers     netip.Prefix
	resets    bool
	sockets   map[uint64]int // by inode: a process that has it
	masters   map[int]bool   // pseudo terminals whose master is open
	users     string         // the user namespace of process 1; "" = it is not known
	depth     int            // in how many namespaces of processes that is
	nests     bool           // a process in a container inside was found
	terminals map[int]int    // pseudo terminals that are open: a process that has it
}

// add adds an obstacle, once for each process and kind.
func (s *survey) add(pid int, o Obstacle) {
	status, err := procstatus.Read(procstatus.Dir(pid))
	if err != nil {
		return
	}
	inside, err := s.numberOf(status)
	if err != nil {
		return
	}
	o.Pid, o.Program = inside, status["Name"]
	if !slices.Contains(s.found, o) {
		s.found = append(s.found, o)
	}
}

func (s *survey) process(pid int) error {
	status, err := procstatus.Read(procstatus.Dir(pid))
	if err != nil {
		return err
	}
	if tracer := status["TracerPid"]; tracer != "0" && tracer != "" {
		s.add(pid, Obstacle{What: "is traced by another", Remedy: "end the debugger or tracer, or wait for its end"})
	}
	s.nested(pid)
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil {
			s.descriptor(pid, entry.Name(), target)
			s.removed(pid, target)
		}
	}
	for _, name := range []string{"cwd", "root", "exe"} {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil {
			s.removed(pid, target)
		}
	}
	memory, err := memoryDevice()
	if err != nil {
		return err
	}
	return eachMapping(pid, func(m mapping) {
		if m.device != memory {
			s.removed(pid, m.path)
		}
	})
}

// removed looks at what a link of /proc, or a map, says about something in use.
func (s *survey) removed(pid int, text string) {
	if path, removed := removedPath(text); removed && !s.saved(path) {
		s.add(pid, removedObstacle(path))
	}
}

// unsaved are the kernel's objects that CRIU does not know, by the first letters of
// their link in /proc.
var unsaved = map[string]string{
	"anon_inode:[io_uring]": "io_uring", "anon_inode:[perf_event]": "performance counters", "anon_inode:[userfaultfd]": "userfaultfd",
	"anon_inode:bpf": "BPF", "anon_inode:[fanotify]": "fanotify", "anon_inode:kvm": "a virtual machine", "anon_inode:[landlock": "landlock rules",
	"anon_inode:[secretmem]": "secret memory", "anon_inode:iommufd": "an IOMMU", "anon_inode:[io_uring-": "io_uring", "dmabuf:": "a device's buffer", "/dmabuf:": "a device's buffer",
}

// descriptor looks at one descriptor.
func (s *survey) descriptor(pid int, fd, target string) {
	if inode, ok := strings.CutPrefix(target, "socket:["); ok {
		if number, err := strconv.ParseUint(strings.TrimSuffix(inode, "]"), 10, 64); err == nil {
			s.sockets[number] = pid
		}
		return
	}
	for prefix, name := range unsaved {
		if strings.HasPrefix(target, prefix) {
			s.add(pid, Obstacle{Lasts: true, What: "uses " + name + ", which cannot be saved", Remedy: saveItself})
			return
		}
	}
	if strings.HasPrefix(target, "/dev/") {
		s.device(pid, fd, target)
	}
}

// The kernel's numbers of devices that CRIU saves, or that hold no state.
const (
	majorMem  = 1
	majorTTY  = 5
	minorTTY  = 0
	minorPtmx = 2
	firstPts  = 136
	lastPts   = 143
)

func (s *survey) device(pid int, fd, path string) {
	var stat unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, fd), &stat)
	kind := stat.Mode & unix.S_IFMT
	if err != nil || kind != unix.S_IFCHR && kind != unix.S_IFBLK {
		return
	}
	major, minor := unix.Major(stat.Rdev), unix.Minor(stat.Rdev)
	switch {
	case kind == unix.S_IFCHR && major == majorMem:
	case kind == unix.S_IFCHR && major == majorTTY && minor == minorTTY:
		s.add(pid, Obstacle{What: "has its terminal open as /dev/tty, which CRIU cannot save", Remedy: "leave that program, or wait for its end"})
	case kind == unix.S_IFCHR && major == majorTTY && minor == minorPtmx:
		if index, ok := terminalIndex(pid, fd); ok {
			s.masters[index] = true
		}
	case kind == unix.S_IFCHR && major >= firstPts && major <= lastPts:
		s.terminals[int(major-firstPts)<<8|int(minor)] = pid
	default:
		s.add(pid, Obstacle{Lasts: true, What: "has the device " + path + " open", Remedy: saveItself})
	}
}

// terminalIndex answers the number of the pseudo terminal of a master.
func terminalIndex(pid int, fd string) (int, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "tty-index:"); ok {
			index, err := strconv.Atoi(strings.TrimSpace(value))
			return index, err == nil
		}
	}
	return 0, false
}

// orphanedTerminals finds open terminals whose other end has gone.
func (s *survey) orphanedTerminals() {
	for index, pid := range s.terminals {
		if !s.masters[index] {
			s.add(pid, Obstacle{What: "has a terminal whose window was closed", Remedy: "end it, or wait for its end"})
		}
	}
}

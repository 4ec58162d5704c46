package container

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// CRIU opens the files of an image by their names, as the container's root, who may open
// another person's files. Whoever owns a directory above may have replaced what the job
// had open by a link or another file. So before a restored process runs, each thing that
// it holds is compared with what its user finds at that path, without any link, and may
// open.

// held is something that a restored process holds.
type held struct {
	path string   // inside, as the kernel says
	link string   // below /proc
	file *os.File // the thing itself, O_PATH
	stat unix.Stat_t
	need []uint32 // accesses, of which the user must have one
	also uint32   // what the user must have besides
	own  bool     // it is in a place where nobody outside changes anything
}

// checkReach refuses a tree that holds what its user may not open, or watches what its
// user may not watch. watched are the paths that its image watches.
func (c *Container) checkReach(first int, pids []int, watched []string) error {
	root, err := os.OpenFile(fmt.Sprintf("/proc/%d/root", first), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("look at the restored root: %w", err)
	}
	defer root.Close()
	all, err := heldBy(first, pids)
	defer closeHeld(all)
	if err != nil {
		return err
	}
	if err := c.checkWatches(root, pids, watched); err != nil {
		return err
	}
	return userpath.As(c.spec.User.Identity(), 0, func() error {
		for _, h := range all {
			if err := h.check(root, c.spec.User.UID); err != nil {
				return fmt.Errorf("%w: it had %s open: %w", ErrMisfit, h.path, err)
			}
		}
		return nil
	})
}

func closeHeld(all []*held) {
	for _, h := range all {
		h.file.Close()
	}
}

// heldBy answers what processes hold in file systems of the host's, and which rights
// their user needs for it. The caller closes it, also after an error. first is process 1.
func heldBy(first int, pids []int) (all []*held, err error) {
	mounts, err := readForeign(first)
	if err != nil {
		return nil, err
	}
	used, err := checkpoint.UsedFiles(pids)
	if err != nil {
		return nil, err
	}
	written := map[string]bool{} // in memory that is shared
	for _, u := range used {
		written[u.Path] = u.Mapped && u.Written
	}
	for _, pid := range pids {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			return all, err
		}
		mapped, err := filepath.Glob(fmt.Sprintf("/proc/%d/map_files/*", pid))
		if err != nil {
			return all, err
		}
		for _, name := range []string{"cwd", "root", "exe"} {
			links = append(links, fmt.Sprintf("/proc/%d/%s", pid, name))
		}
		for _, link := range append(links, mapped...) {
			h, err := mounts.hold(link)
			if err != nil {
				return all, err
			}
			if h == nil {
				continue
			}
			all = append(all, h)
			if err := h.needs(written); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// listHeld tells what processes hold in file systems that are not part of an image.
func (c *Container) listHeld(pids []int) ([]checkpoint.Held, error) {
	places, err := c.places()
	if err != nil {
		return nil, err
	}
	all, err := heldBy(c.Pid(), pids)
	defer closeHeld(all)
	if err != nil {
		return nil, err
	}
	found := map[string]*checkpoint.Held{}
	for _, h := range all {
		if where := places.of(h.path); where != placeShared && where != placeNetwork || h.stat.Nlink == 0 || strings.HasSuffix(h.path, " (deleted)") {
			continue
		}
		known := found[h.path]
		if known == nil {
			known = &checkpoint.Held{Path: h.path, Kind: checkpoint.KindOf(h.stat.Mode)}
			found[h.path] = known
		}
		known.Access |= h.also
		if h.need != nil {
			known.Mapped = true
		}
		if filepath.Base(h.link) == "cwd" && c.mayWrite(h) {
			known.Access |= unix.W_OK // what it writes there later
		}
	}
	used, err := checkpoint.UsedFiles(pids)
	if err != nil {
		return nil, err
	}
	for _, u := range used {
		if known := found[u.Path]; known != nil && u.Runs {
			known.Access |= unix.X_OK
		}
	}
	list := make([]checkpoint.Held, 0, len(found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[path])
	}
	return list, nil
}

func (c *Container) mayWrite(h *held) bool {
	return userpath.As(c.spec.User.Identity(), 0, func() error {
		return unix.Faccessat2(int(h.file.Fd()), "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
	}) == nil
}

// foreignTable tells the host's file systems from a container's own.
type foreignTable struct {
	inside  map[int]*mountinfo.Info
	foreign map[string]bool // paths inside
	outside map[[2]int]bool // devices
}

func readForeign(pid int) (*foreignTable, error) {
	outside, inside, err := mountTables(pid)
	if err != nil {
		return nil, err
	}
	t := &foreignTable{inside: map[int]*mountinfo.Info{}, foreign: map[string]bool{"/": true}, outside: map[[2]int]bool{}}
	for _, m := range inside {
		t.inside[m.ID] = m
	}
	for _, path := range selectForeign(outside, inside) {
		t.foreign[path] = true
	}
	for _, m := range outside {
		t.outside[[2]int{m.Major, m.Minor}] = true
	}
	return t, nil
}

// hold opens what a link of /proc leads to, if that is a file, a directory or a pipe
// with a name in a file system of the host's.
func (t *foreignTable) hold(link string) (*held, error) {
	path, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // it was killed
	}
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := &held{path: path, link: link, file: file}
	foreign, err := t.isForeign(h)
	if err != nil || !foreign {
		file.Close()
		return nil, err
	}
	return h, nil
}

func (t *foreignTable) isForeign(h *held) (bool, error) {
	if err := unix.Fstat(int(h.file.Fd()), &h.stat); err != nil {
		return false, &os.PathError{Op: "look at", Path: h.path, Err: err}
	}
	switch h.stat.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO, unix.S_IFLNK:
	default:
		return false, nil // devices have rules of their own
	}
	id, err := userpath.MountID(h.file)
	if err != nil {
		return false, err
	}
	m := t.inside[id]
	if m == nil {
		// The kernel's own: a pipe, or memory. A mount of the host's is not.
		if t.outside[[2]int{int(unix.Major(h.stat.Dev)), int(unix.Minor(h.stat.Dev))}] {
			return false, fmt.Errorf("%w: it had %s open, which is not in its root", ErrMisfit, h.path)
		}
		return false, nil
	}
	h.own = m.Mountpoint == "/" || isOwnMount(m.Mountpoint)
	return t.foreign[m.Mountpoint], nil
}

// needs fills in the rights that the user needs.
func (h *held) needs(written map[string]bool) error {
	const oPath = 0o10000000
	dir, name := filepath.Split(h.link)
	switch {
	case strings.HasSuffix(dir, "/fd/"):
		flags, err := checkpoint.OpenFlags(filepath.Join(filepath.Dir(filepath.Dir(dir)), "fdinfo", name))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if flags&oPath != 0 {
			return nil
		}
		if flags&unix.O_ACCMODE != unix.O_WRONLY {
			h.also |= unix.R_OK
		}
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			h.also |= unix.W_OK
		}
	case name == "cwd", name == "root":
		h.also = unix.X_OK
	default: // a program that can be run need not be readable
		h.need = []uint32{unix.R_OK, unix.X_OK}
		if written[h.path] {
			h.also = unix.W_OK
		}
	}
	return nil
}

// check is called as the user.
func (h *held) check(root *os.File, uid uint32) error {
	own := h.stat.Uid == uid // its owner can open it again at any time
	if h.stat.Nlink == 0 || strings.HasSuffix(h.path, " (deleted)") {
		// CRIU has made it from the image, or found it by a name that CRIU gave it. It does
		// that only in the container's own file systems.
		if !h.own {
			return errors.New("it was removed meanwhile")
		}
		if own || h.stat.Uid == HostIDBase {
			return nil
		}
		return errors.New("it was removed, and is not the user's")
	}
	open := userpath.BeneathAsSelf
	if h.stat.Mode&unix.S_IFMT == unix.S_IFLNK { // a process has the link itself open (O_PATH)
		open = userpath.LinkBeneathAsSelf
	}
	found, err := open(root, h.path)
	if err != nil {
		return fmt.Errorf("its user does not find it: %w", err)
	}
	defer found.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(found.Fd()), &stat); err != nil {
		return err
	}
	if stat.Dev != h.stat.Dev || stat.Ino != h.stat.Ino {
		return errors.New("its user finds another file there")
	}
	may := func(mode uint32) bool {
		return mode == 0 || unix.Faccessat2(int(found.Fd()), "", mode, unix.AT_EACCESS|unix.AT_EMPTY_PATH) == nil
	}
	if own || may(h.also) && (len(h.need) == 0 || may(h.need[0]) || may(h.need[1])) {
		return nil
	}
	return unix.EACCES
}

// checkMounted makes sure that only those parts of the host that were given are mounted
// in a restored tree.
func checkMounted(first int, sources map[string]source) error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	outside := make(map[int]*mountinfo.Info, len(infos))
	for _, info := range infos {
		outside[info.ID] = info
	}
	t, err := readForeign(first)
	if err != nil {
		return err
	}
	for _, m := range t.inside {
		if m.Mountpoint == "/" || !t.foreign[m.Mountpoint] || !t.outside[[2]int{m.Major, m.Minor}] {
			continue
		}
		from, ok := sources[m.Mountpoint]
		if !ok {
			return fmt.Errorf("%w: something is mounted at %s that it was not given", ErrMisfit, m.Mountpoint)
		}
		if strings.HasPrefix(from.path, "/dev/") {
			continue // a device that every job has
		}
		id, err := mountOf(from.path)
		if err != nil {
			return err
		}
		if given := outside[int(id)]; given == nil || given.Major != m.Major || given.Minor != m.Minor || given.Root != m.Root {
			return fmt.Errorf("%w: what is mounted at %s is not what it was given", ErrMisfit, m.Mountpoint)
		}
	}
	return nil
}

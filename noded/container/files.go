package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// carryBytes bounds how many bytes of the root's files travel with an image,
// for a node where they differ or are missing: for example libraries from a
// package of which the next node has another version.
const carryBytes = 64 << 20

// hashes remembers what libraries hold, for all containers of this process.
var hashes checkpoint.Hashes

// usedFile is a file of the root that processes have mapped or open.
type usedFile struct {
	checkpoint.Used
	file    checkpoint.File
	changed bool // the host's root has another one at its path now
}

// listFiles tells which files the processes have mapped or open, and copies into the
// image those of the root that no other node may have.
func (c *Container) listFiles(ctx context.Context, group *cgroup.Group, manifest *checkpoint.Manifest, dir string) error {
	pids, err := group.Procs()
	if err != nil {
		return err
	}
	used, err := checkpoint.UsedFiles(pids)
	if err != nil {
		return err
	}
	places, err := c.places()
	if err != nil {
		return err
	}
	var root []usedFile
	for _, u := range used {
		switch places.of(u.Path) {
		case placeRoot:
			if c.spec.Root != nil {
				continue // its digest says what it has
			}
			if isFile(filepath.Join(c.spec.LayerDir, "upper", u.Path)) {
				continue // it travels
			}
			f, err := c.lookAt(ctx, u)
			if err != nil {
				return err
			}
			root = append(root, f)
		case placeShared:
			shared, err := sharedFile(u)
			if err != nil {
				return err
			}
			manifest.Shared = append(manifest.Shared, shared)
			if u.Mapped && !u.Written {
				f, err := c.lookAt(ctx, u)
				if err != nil {
					return err
				}
				manifest.Files = append(manifest.Files, f.file)
			}
		case placeNetwork:
			shared, err := sharedFile(u)
			if err != nil {
				return err
			}
			manifest.Shared = append(manifest.Shared, shared)
		}
	}
	files, err := carry(root, dir)
	if err != nil {
		return err
	}
	manifest.Files = append(manifest.Files, files...)
	own, err := carryInit(c.Pid(), dir)
	if err != nil {
		return err
	}
	manifest.Files = append(manifest.Files, own)
	slices.SortFunc(manifest.Files, func(a, b checkpoint.File) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// lookAt reads a file of the root. If the host's root has the same file at the same
// path, its digest is remembered for that one, because every container's overlay has
// its own inode numbers.
func (c *Container) lookAt(ctx context.Context, u checkpoint.Used) (usedFile, error) {
	f := usedFile{Used: u, file: checkpoint.File{Path: u.Path}}
	inside, err := checkpoint.OpenFile(u.Link)
	if err != nil {
		return f, fmt.Errorf("read what is mapped of %s: %w", u.Path, err)
	}
	defer inside.Close()
	read := inside
	if c.spec.Root != nil { // its paths are not the host's
		f.file.Size, f.file.SHA256, err = hashes.Of(ctx, read)
		return f, err
	}
	if host, err := checkpoint.OpenFile(u.Path); err == nil {
		defer host.Close()
		if sameContent(inside, host) {
			read = host
		}
	}
	f.changed = read == inside
	f.file.Size, f.file.SHA256, err = hashes.Of(ctx, read)
	return f, err
}

// sameContent says whether an overlay's file is the one below it.
func sameContent(overlay, lower *os.File) bool {
	var a, b unix.Stat_t
	return unix.Fstat(int(overlay.Fd()), &a) == nil && unix.Fstat(int(lower.Fd()), &b) == nil &&
		a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// carry copies files into the image: those that the host's root no longer has, and
// as many mapped files as there is room for, the smallest first.
func carry(root []usedFile, dir string) ([]checkpoint.File, error) {
	slices.SortFunc(root, func(a, b usedFile) int {
		if a.changed != b.changed {
			if a.changed {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.file.Size, b.file.Size), strings.Compare(a.Path, b.Path))
	})
	var files []checkpoint.File
	room := int64(carryBytes)
	for i, f := range root {
		if f.changed || f.Mapped && f.file.Size <= room {
			room -= f.file.Size
			f.file.Carried = filepath.Join(carriedDir, strconv.Itoa(i))
			mode, err := copyFile(f.Link, filepath.Join(dir, f.file.Carried))
			if err != nil {
				return nil, err
			}
			f.file.Mode = mode
		}
		files = append(files, f.file)
	}
	return files, nil
}

// carryInit copies process 1's program: a restored process 1 needs the very
// bytes that it had.
func carryInit(pid int, dir string) (checkpoint.File, error) {
	f := checkpoint.File{Path: initPath, Carried: carriedInit}
	from := fmt.Sprintf("/proc/%d/exe", pid)
	seen, err := hashes.Look(from)
	if err != nil {
		return f, fmt.Errorf("read process 1's program: %w", err)
	}
	f.Size, f.SHA256 = seen.Size, seen.SHA256
	f.Mode, err = copyFile(from, filepath.Join(dir, carriedInit))
	return f, err
}

func sharedFile(u checkpoint.Used) (checkpoint.SharedFile, error) {
	info, err := os.Stat(u.Link)
	if err != nil {
		return checkpoint.SharedFile{}, fmt.Errorf("look at %s: %w", u.Path, err)
	}
	return checkpoint.SharedFile{Path: u.Path, Size: info.Size(), Written: u.Written, Exact: !u.Appends}, nil
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// place says what happens to the files of a mount.
type place int

const (
	placeOwn     place = iota // saved with the image
	placeRoot                 // the host's, and needed
	placeShared               // the user's, on a file system of the host
	placeNetwork              // the user's, on a file server
)

// places says where the files of a container are.
type places struct{ mounts []placedMount }

type placedMount struct {
	path  string
	place place
}

// places reads the container's mounts.
func (c *Container) places() (*places, error) {
	table, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", c.Pid()))
	if err != nil {
		return nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	defer table.Close()
	inside, err := mountinfo.GetMountsFromReader(table, nil)
	if err != nil {
		return nil, fmt.Errorf("read the container's mounts: %w", err)
	}
	foreign, err := foreignMounts(c.Pid())
	if err != nil {
		return nil, err
	}
	p := new(places)
	system := systemDirs
	if c.spec.Root != nil {
		system = nil // what is mounted there is the user's
	}
	for _, m := range inside {
		where := placeOwn
		switch path := m.Mountpoint; {
		case path == "/":
			where = placeRoot
		case !slices.Contains(foreign, path), isOwnMount(path):
		case isNetwork(m.FSType):
			where = placeNetwork
		case slices.ContainsFunc(system, func(dir string) bool { return within(path, dir) }):
			where = placeRoot
		default:
			where = placeShared
		}
		p.mounts = append(p.mounts, placedMount{m.Mountpoint, where})
	}
	// A later mount lies above.
	slices.Reverse(p.mounts)
	slices.SortStableFunc(p.mounts, func(a, b placedMount) int { return cmp.Compare(len(b.path), len(a.path)) })
	return p, nil
}

// isOwnMount says whether the mount at a path is saved with an image although it
// is in a file system of the host's: nobody else reaches it there.
func isOwnMount(path string) bool {
	return path == "/tmp" || path == "/var/tmp" || within(path, pid1.Dir)
}

// of answers where the file at a path lies.
func (p *places) of(path string) place {
	for _, m := range p.mounts {
		if within(path, m.path) {
			return m.place
		}
	}
	return placeRoot
}

// Look answers what lies at a path of a job's root on this node, for
// checkpoint.Manifest.Fits.
func Look(path string) (checkpoint.File, error) { return hashes.Look(path) }

// look is Look for a path inside.
func (s *Spec) look(path string) (checkpoint.File, error) { return Look(s.outside(path)) }

// Spare answers the parts of an image without which it can be restored here, because
// this node has the files that they carry: as a rule all programs and libraries. program
// is process 1's here. Whoever restores the image looks again.
func Spare(m *checkpoint.Manifest, program string) map[string]bool {
	there := make([]bool, len(m.Files))
	var looking errgroup.Group
	looking.SetLimit(runtime.GOMAXPROCS(0))
	for i := range m.Files {
		f := &m.Files[i]
		path := f.Path
		if path == initPath {
			path = program
		}
		if f.Carried != "" {
			looking.Go(func() error { there[i] = isThere(f, path); return nil })
		}
	}
	_ = looking.Wait() // none fails
	spare := map[string]bool{}
	for i := range m.Files {
		if there[i] {
			spare[m.Files[i].Carried] = true
		}
	}
	for i := range m.Files { // several may be carried by one part
		if !there[i] {
			delete(spare, m.Files[i].Carried)
		}
	}
	return spare
}

// isThere says whether a file lies at a path of this node.
func isThere(f *checkpoint.File, path string) bool {
	have, err := Look(path)
	return err == nil && have.Size == f.Size && have.SHA256 == f.SHA256
}

// putCarried writes the files that this node lacks, or that differ here, into
// the root, which is the container's own above the host's.
func (s *stage) putCarried(a *assembled, image *Image) error {
	for i := range image.Manifest.Files {
		f := &image.Manifest.Files[i]
		if f.Carried == "" || f.Path == initPath {
			continue
		}
		have, err := Look(f.Path)
		// The facts alone do not say what is in it.
		if err == nil && have.Size == f.Size && (have.SHA256 == f.SHA256 || image.Dir == "" && f.SHA256 == checkpoint.Digest{}) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look at %s: %w", f.Path, err)
		}
		if image.Spare[f.Carried] {
			return misfit("file "+f.Path, "it was replaced a moment ago", "try again")
		}
		from := ""
		if image.Dir != "" {
			from = filepath.Join(image.Dir, f.Carried)
		}
		if err := s.putFile(a, f, from); err != nil {
			return misfit("file "+f.Path, "the image's own cannot be put in its place: "+err.Error(), "choose a node with the same version of the package that it belongs to")
		}
	}
	return nil
}

// putFile writes one of them; without an image, it says why it could not. Only in the
// overlay can a file differ from the host's.
func (s *stage) putFile(a *assembled, f *checkpoint.File, from string) error {
	points, err := s.newPoints(a)
	if err != nil {
		return err
	}
	defer points.close()
	parent, err := points.open(filepath.Dir(f.Path), true, 0)
	if err != nil {
		return err
	}
	above := os.NewFile(uintptr(parent), f.Path)
	defer above.Close()
	if id, err := userpath.MountID(above); err != nil || !points.own[id] {
		return errors.Join(errors.New("it lies on a file system of its own, which jobs cannot change"), err)
	}
	if from == "" {
		return nil
	}
	draft := fmt.Sprintf("/proc/self/fd/%d/.gleaner-%s", parent, f.SHA256)
	if _, err := copyFile(from, draft); err != nil {
		return err
	}
	return errors.Join(
		os.Chown(draft, hostID(s.uids, 0), hostID(s.gids, 0)), os.Chmod(draft, os.FileMode(f.Mode)&os.ModePerm),
		os.Rename(draft, fmt.Sprintf("/proc/self/fd/%d/%s", parent, filepath.Base(f.Path))),
	)
}

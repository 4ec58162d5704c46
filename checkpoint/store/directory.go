package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// What lies in a store:
//
//	images/IMAGE/           an image: its name says what List answers (about.go)
//	    manifest.zst
//	    XXXX.pack           chunks; a hard link if another image has them too
//	making/WRITER/          what is being put or deleted (tidy.go)
//
// Nothing counts who needs a chunk but the links of the packs' inodes: an image
// has all its packs itself, and a Put links those that it builds on before it
// begins, so that no deletion can take them away.
const (
	imagesName   = "images"
	makingName   = "making"
	manifestName = "manifest.zst"
	// damagedName marks an image in which damage was found: no other is built
	// on it.
	damagedName = "damaged"
)

// Directory is a Store in a directory: of this node, or one that several nodes
// share. It needs no lock of the file system, only that renaming is atomic. What lies in a
// Bucket looks to it like a directory (bucket_disk.go).
type Directory struct {
	path     string
	disk     disk
	local    *unixDisk // below it; nil = it is in no directory of this machine
	limits   Limits
	writer   writer        // of what is being made
	patience time.Duration // with a directory, once a context is done
	waiting  atomic.Int32  // calls that have not come back

	mu    sync.Mutex
	names map[checkpoint.Digest]string // of images, as seen last

	decoded decoded
}

// OpenDirectory opens a store, and makes it if there is nothing at the path,
// which must lie in a directory that exists. It is refused with ErrUnsafe if
// anybody else could read or change it.
func OpenDirectory(ctx context.Context, path string, limits Limits) (*Directory, error) {
	return OpenSealed(ctx, path, limits, nil)
}

// OpenSealed opens a store whose files are encrypted, unless keys is nil.
func OpenSealed(ctx context.Context, path string, limits Limits, keys *Keys) (*Directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	local := &unixDisk{path: path}
	d := newDirectory(path, sealed(local, keys), limits)
	d.local = local
	_, err = within(ctx, d, "open", func(ctx context.Context) (struct{}, error) {
		top, err := openTop(path)
		if err != nil {
			return struct{}{}, err
		}
		local.top = top
		return struct{}{}, d.begin(ctx)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// at answers where a name of the store lies, for people.
func (d *Directory) at(name string) string { return d.path + "/" + name }

func newDirectory(path string, on disk, limits Limits) *Directory {
	return &Directory{path: path, disk: on, limits: limits, writer: thisWriter(), patience: 2 * time.Second, names: map[checkpoint.Digest]string{}}
}

// Close lets the directory go. Nothing may be under way.
func (d *Directory) Close() error {
	if d.local != nil {
		return unix.Close(d.local.top)
	}
	return nil
}

// Replaced says whether the path leads to something else by now than what was
// opened there, or to nothing: somebody has removed it, or mounted over it.
func (d *Directory) Replaced(ctx context.Context) (bool, error) {
	if d.local == nil {
		return false, nil
	}
	return within(ctx, d, "look at", func(context.Context) (bool, error) {
		var mine, there unix.Stat_t
		if err := unix.Fstat(d.local.top, &mine); err != nil {
			return false, err
		}
		err := unix.Lstat(d.path, &there)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return mine.Dev != there.Dev || mine.Ino != there.Ino, err
	})
}

// openTop opens the store's own directory.
func openTop(path string) (int, error) {
	switch err := os.Mkdir(path, 0o700); {
	case err == nil:
		if err := syncPath(filepath.Dir(path)); err != nil {
			return -1, err
		}
	case !errors.Is(err, fs.ErrExist):
		return -1, fmt.Errorf("make a store of images: %w", err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, fmt.Errorf("%s is %w: it is a link or no directory: name the directory itself", path, ErrUnsafe)
	}
	if err != nil {
		return -1, fmt.Errorf("open the store of images %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("open the store of images %s: %w", path, err)
	}
	if err := checkOwner(path, st.Uid, st.Mode&0o7777, uint32(os.Geteuid())); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkOwner refuses a directory that others own, read or write.
func checkOwner(path string, owner, mode, me uint32) error {
	if owner != me {
		return fmt.Errorf("%s is %w: it belongs to uid %d, not to %d: chown %d %s; if it is exported by NFS, export it with no_root_squash",
			path, ErrUnsafe, owner, me, me, path)
	}
	if mode&0o077 != 0 {
		return fmt.Errorf("%s is %w: its mode is %04o, and others could read what jobs had in memory: chmod 700 %s", path, ErrUnsafe, mode, path)
	}
	return nil
}

func syncPath(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// begin makes what a store consists of, and removes left-overs.
func (d *Directory) begin(ctx context.Context) error {
	made := false
	for _, name := range []string{imagesName, makingName} {
		switch err := d.disk.MakeDirectory(name); {
		case err == nil:
			made = true
		case !errors.Is(err, fs.ErrExist):
			return err
		}
	}
	if made {
		if err := d.disk.SyncDirectory(""); err != nil {
			return err
		}
	}
	_, err := d.tidy(ctx)
	return err
}

// List implements Store.
func (d *Directory) List(ctx context.Context) ([]About, error) {
	return within(ctx, d, "list", d.list)
}

func (d *Directory) list(context.Context) ([]About, error) {
	names, err := d.disk.Names(imagesName)
	if err != nil {
		return nil, err
	}
	all := make([]About, 0, len(names))
	known := make(map[checkpoint.Digest]string, len(names))
	for _, name := range names {
		if about, is := parseAbout(name); is {
			all = append(all, about)
			known[about.Digest] = name
		}
	}
	d.mu.Lock()
	d.names = known
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b About) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Number, b.Number), slices.Compare(a.Digest[:], b.Digest[:]))
	})
	return all, nil
}

// find answers the name of an image below the store.
func (d *Directory) find(ctx context.Context, image checkpoint.Digest) (string, error) {
	for try := range 2 {
		d.mu.Lock()
		name, known := d.names[image]
		d.mu.Unlock()
		if known {
			name = path.Join(imagesName, name)
			_, err := d.disk.Status(name)
			if err == nil {
				return name, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
		if try == 0 {
			if _, err := d.list(ctx); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("%w as %s in %s", ErrNoImage, image, d.path)
}

// Delete implements Store.
func (d *Directory) Delete(ctx context.Context, image checkpoint.Digest) error {
	_, err := within(ctx, d, "delete an image in", func(ctx context.Context) (struct{}, error) {
		name, err := d.find(ctx, image)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, d.discard(name)
	})
	return err
}

// discard takes an image, or what is being made, out of sight at once, and
// then removes it.
func (d *Directory) discard(name string) error {
	away := path.Join(makingName, d.writer.next())
	defer release(path.Base(away))
	if err := d.disk.Rename(name, away); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: somebody else deleted it: %w", ErrNoImage, err)
		}
		return err
	}
	if err := d.disk.SyncDirectory(path.Dir(name)); err != nil {
		return err
	}
	return d.empty(away)
}

// empty removes a directory of files. There are no directories in it, and it
// is not looked for any.
func (d *Directory) empty(name string) error {
	names, err := d.disk.Names(name)
	if err != nil {
		return err
	}
	for _, file := range names {
		if err := d.disk.Remove(path.Join(name, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := d.disk.RemoveDirectory(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

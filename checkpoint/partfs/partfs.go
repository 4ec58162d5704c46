// Package partfs shows parts of an image as files, whose bytes are made when somebody
// reads them: CRIU reads an image that was never unpacked.
//
// Contract: the file system (FUSE, served by this process) is read-only and flat, and
// holds one file for each part. A byte that its source does not vouch for is never
// read: the read fails with EIO, and so does each after it. The kernel keeps no copy of
// what was read. If this process dies, every read fails, also one of its own (apart.go).
//
// What it needs: Linux 4.20, /dev/fuse, and the right to mount.
package partfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Source has the bytes of the parts: see store.Feed.
type Source interface {
	// Parts answers the names.
	Parts() []string
	Size(part string) int64
	// Read answers bytes of a part from a place on, in pieces: at least one byte, unless
	// that is its end, and at most so many. They stay as they are until done is called.
	// It may be called by several goroutines at once.
	Read(part string, offset, most int64) (pieces [][]byte, done func(), err error)
}

// Mount is the file system. Its files are named 0, 1, …, in the order of the source's
// parts.
type Mount struct {
	directory string
	source    Source
	parts     []string
	server    *fuse.Server
	fd        int // the server's end of it
	log       *slog.Logger
	told      sync.Once
	bound     []string // paths that show files, in order
	mounted   bool
}

// readBytes is the most that the kernel asks for at a time.
const readBytes = 1 << 20

// New mounts a source's parts on a directory.
func New(directory string, source Source, logger *slog.Logger) (*Mount, error) {
	m := &Mount{directory: directory, source: source, parts: source.Parts(), log: logger}
	fd, err := mount(directory)
	if err != nil {
		return nil, fmt.Errorf("mount the parts of an image on %s: %w", directory, err)
	}
	m.fd, m.mounted = fd, true
	forever := time.Hour // nothing changes
	// From here on the descriptor is the server's. By this name the server does not know where
	// it is mounted, and does not open a file of its own there.
	m.server, err = fs.Mount("/dev/fd/"+strconv.Itoa(fd), &root{mount: m}, &fs.Options{
		EntryTimeout: &forever, AttrTimeout: &forever,
		MountOptions: fuse.MountOptions{MaxWrite: readBytes, DisableXAttrs: true, Logger: log.New(io.Discard, "", 0)},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the parts of an image on %s: %w", directory, err), m.Close())
	}
	return m, nil
}

// mount mounts a file system on a directory, which whoever has the descriptor serves.
func mount(directory string) (fd int, err error) {
	if fd, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/fuse", Err: err}
	}
	// CRIU reads the files, as other users too. Their directory is closed to all others.
	options := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d,allow_other,default_permissions", fd, unix.S_IFDIR, os.Geteuid(), os.Getegid(), readBytes)
	if err = unix.Mount("gleaner", directory, "fuse.gleaner", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, options); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Show binds the file of each part to a file that exists, which path names.
func (m *Mount) Show(path func(part string) string) error {
	return apart(m.fd, func() error {
		for i, part := range m.parts {
			target := path(part)
			if err := unix.Mount(filepath.Join(m.directory, strconv.Itoa(i)), target, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("show part %s of an image: %w", part, &os.PathError{Op: "bind to", Path: target, Err: err})
			}
			m.bound = append(m.bound, target)
		}
		return nil
	})
}

// Close unmounts the file system and every file that was shown. Copies of these mounts in
// other places, and files that are open, stay as long as they are used. It may be called
// again.
func (m *Mount) Close() error {
	if m == nil {
		return nil
	}
	var failures []error
	unmount := func(path string) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			failures = append(failures, &os.PathError{Op: "unmount", Path: path, Err: err})
		}
	}
	for _, path := range m.bound {
		unmount(path)
	}
	m.bound = nil
	if m.mounted {
		unmount(m.directory)
		m.mounted = false
	}
	return errors.Join(failures...)
}

// root is the directory.
type root struct {
	fs.Inode
	mount *Mount
}

var _ fs.NodeOnAdder = (*root)(nil)

// OnAdd implements fs.NodeOnAdder.
func (r *root) OnAdd(ctx context.Context) {
	for i, part := range r.mount.parts {
		node := &file{mount: r.mount, part: part}
		r.AddChild(strconv.Itoa(i), r.NewPersistentInode(ctx, node, fs.StableAttr{Mode: fuse.S_IFREG}), false)
	}
}

// file is one part.
type file struct {
	fs.Inode
	mount *Mount
	part  string
}

var (
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
)

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Nlink, out.Size = fuse.S_IFREG|0o444, 1, uint64(f.mount.source.Size(f.part))
	return 0
}

// Open implements fs.NodeOpener.
func (f *file) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read implements fs.NodeReader. A signal to whoever reads does not interrupt it: the
// answer comes soon, and CRIU takes an interrupted read for a failure.
func (f *file) Read(_ context.Context, _ fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	pieces, done, err := f.mount.source.Read(f.part, offset, int64(len(into)))
	if err != nil {
		f.mount.told.Do(func() {
			f.mount.log.Warn("a part of the image cannot be read, and the restore fails: see the error for what is wrong with the image or its store", "part", f.part, "offset", offset, "error", err)
		})
		return nil, syscall.EIO
	}
	if len(pieces) == 0 {
		done()
		return fuse.ReadResultData(nil), 0
	}
	return &answer{pieces: pieces, done: done}, 0
}

// answer is written to the kernel from where it lies.
type answer struct {
	pieces [][]byte
	done   func()
}

// Bytes implements fuse.ReadResult.
func (a *answer) Bytes([]byte) ([]byte, fuse.Status) { return slices.Concat(a.pieces...), fuse.OK }

// Slices has go-fuse write the bytes without a copy.
func (a *answer) Slices() ([][]byte, fuse.Status) { return a.pieces, fuse.OK }

// Size implements fuse.ReadResult.
func (a *answer) Size() (n int) {
	for _, piece := range a.pieces {
		n += len(piece)
	}
	return n
}

// Done implements fuse.ReadResult.
func (a *answer) Done() { a.done() }

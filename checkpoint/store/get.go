package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// unpacking is the way of an image's chunks into files: one goroutine reads
// them as they are stored, as many as there are processors unpack, check and
// write them. Each is read once, however often the image has it.
type unpacking struct {
	image  Image
	digest checkpoint.Digest
	m      *checkpoint.Manifest
	target *target

	wanted []Ref
	offset []int64            // of each that is wanted, in its part
	again  map[int][]location // other places of the same bytes
}

type location struct {
	part   uint32
	offset int64
}

// load is some chunks on their way.
type load struct {
	first  int // counts in wanted
	stored []byte
	ends   []int // of each chunk in stored
}

// loadBytes is how much of stored chunks goes to one processor at a time.
const loadBytes = 1 << 20

// unpack writes an image into a directory, or leaves nothing there.
func unpack(ctx context.Context, image Image, digest checkpoint.Digest, directory string) (err error) {
	u := &unpacking{image: image, digest: digest, m: image.Manifest()}
	u.plan()
	if u.target, err = makeTarget(directory); err != nil {
		return err
	}
	defer func() {
		if closed := u.target.close(err != nil); err == nil {
			err = closed
		}
	}()
	if err := u.target.fits(u.m); err != nil {
		return err
	}
	for i := range u.m.Parts {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := u.target.create(&u.m.Parts[i]); err != nil {
			return err
		}
	}
	return u.run(ctx)
}

// plan lists the chunks in the order in which they first occur.
func (u *unpacking) plan() {
	first := map[checkpoint.Digest]int{}
	u.again = map[int][]location{}
	for i := range u.m.Parts {
		at := int64(0)
		for j, c := range u.m.Parts[i].Chunks {
			if !c.Hole() {
				if n, seen := first[c.SHA256]; seen {
					u.again[n] = append(u.again[n], location{uint32(i), at})
				} else {
					first[c.SHA256] = len(u.wanted)
					u.wanted = append(u.wanted, Ref{uint32(i), uint32(j)})
					u.offset = append(u.offset, at)
				}
			}
			at += c.Size
		}
	}
}

func (u *unpacking) run(ctx context.Context) error {
	workers := runtime.GOMAXPROCS(0)
	if workers > 8 {
		workers = 8 // the reader is not faster than these
	}
	idle, todo := make(chan *load, workers+2), make(chan *load, workers+2)
	for range workers + 2 {
		idle <- &load{}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(todo)
		return u.read(ctx, idle, todo)
	})
	for range workers {
		group.Go(func() error {
			files := openFiles{target: u.target}
			defer files.close()
			for l := range todo {
				if err := u.write(ctx, l, &files); err != nil {
					return err
				}
				idle <- l
			}
			return nil
		})
	}
	return group.Wait()
}

// read fills loads with stored chunks.
func (u *unpacking) read(ctx context.Context, idle <-chan *load, todo chan<- *load) error {
	var l *load
	err := u.image.Chunks(ctx, u.wanted, func(n int, stored []byte) error {
		if l == nil {
			select {
			case l = <-idle:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			l.first, l.stored, l.ends = n, l.stored[:0], l.ends[:0]
		}
		l.stored = append(l.stored, stored...)
		l.ends = append(l.ends, len(l.stored))
		if len(l.stored) >= loadBytes {
			todo <- l
			l = nil
		}
		return nil
	})
	if err == nil && l != nil {
		todo <- l
	}
	return err
}

// write unpacks a load into its files.
func (u *unpacking) write(ctx context.Context, l *load, files *openFiles) error {
	begin := 0
	for k, end := range l.ends {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n := l.first + k
		ref := u.wanted[n]
		chunk := u.m.Parts[ref.Part].Chunks[ref.Chunk]
		if int64(cap(files.chunk)) < chunk.Size {
			files.chunk = make([]byte, 0, max(chunk.Size, 2*smallestTarget))
		}
		data, err := expandChunk(chunk, l.stored[begin:end], files.chunk)
		if err != nil {
			return &Damage{Image: u.digest, Part: u.m.Parts[ref.Part].Name, Chunk: int(ref.Chunk), File: u.image.File(ref), What: err.Error()}
		}
		begin = end
		if err := files.write(u.m.Parts[ref.Part].Name, data, u.offset[n]); err != nil {
			return err
		}
		for _, also := range u.again[n] {
			if err := files.write(u.m.Parts[also.part].Name, data, also.offset); err != nil {
				return err
			}
		}
	}
	return files.flush()
}

// openFiles collects what belongs one behind the other into one write, for
// those who write into one file wait for each other, and keeps the file open
// that was written last.
type openFiles struct {
	target *target
	name   string
	file   *os.File
	chunk  []byte // memory for one
	run    []byte // not written yet
	at     int64  // where that belongs
}

// runBytes is about how much is written at once.
const runBytes = 1 << 20

func (o *openFiles) write(name string, data []byte, at int64) error {
	if o.name != name || at != o.at+int64(len(o.run)) || len(o.run) >= runBytes {
		if err := o.flush(); err != nil {
			return err
		}
		o.at = at
	}
	if o.file == nil || o.name != name {
		o.close()
		fd, err := beneath(o.target.top, name, unix.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write part %s: %w", name, err)
		}
		o.name, o.file = name, os.NewFile(uintptr(fd), name)
	}
	o.run = append(o.run, data...)
	return nil
}

func (o *openFiles) flush() error {
	if len(o.run) == 0 {
		return nil
	}
	_, err := o.file.WriteAt(o.run, o.at)
	o.run = o.run[:0]
	if err != nil {
		return fmt.Errorf("write part %s: %w", o.name, full(err))
	}
	return nil
}

func (o *openFiles) close() {
	if o.file != nil {
		o.file.Close()
		o.file = nil
	}
}

// target is the directory that an image is unpacked into.
type target struct {
	path        string
	top         int
	made        bool // the directory itself
	files       []string
	directories []string // in the order in which they were made
	known       map[string]bool
}

func makeTarget(directory string) (_ *target, err error) {
	t := &target{path: directory, known: map[string]bool{".": true}}
	switch err := os.Mkdir(directory, 0o700); {
	case err == nil:
		t.made = true
	case !errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("make the directory to unpack into: %w", full(err))
	}
	t.top, err = unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the directory to unpack into: %w", &os.PathError{Op: "open", Path: directory, Err: err})
	}
	if names, err := os.ReadDir(directory); err != nil || len(names) > 0 {
		unix.Close(t.top)
		if err == nil {
			err = fmt.Errorf("%s is not empty: it has %s", directory, names[0].Name())
		}
		return nil, fmt.Errorf("open the directory to unpack into: %w", err)
	}
	return t, nil
}

// fits refuses what the file system has no room for.
func (t *target) fits(m *checkpoint.Manifest) error {
	var state unix.Statfs_t
	if err := unix.Fstatfs(t.top, &state); err != nil {
		return fmt.Errorf("look at the space of %s: %w", t.path, err)
	}
	needed := int64(0)
	for i := range m.Parts {
		for _, c := range m.Parts[i].Chunks {
			if !c.Hole() {
				needed += c.Size
			}
		}
	}
	if free := int64(state.Bavail) * state.Bsize; needed > free {
		return fmt.Errorf("%w: the image has %s, and %s has %s free", ErrFull, size(needed), t.path, size(free))
	}
	return nil
}

// create makes a part's file, all hole, and the directories above it.
func (t *target) create(part *checkpoint.Part) error {
	if err := t.directory(path.Dir(part.Name)); err != nil {
		return err
	}
	fd, err := beneath(t.top, part.Name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make part %s: %w", part.Name, full(err))
	}
	t.files = append(t.files, part.Name)
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, part.Size); err != nil {
		return fmt.Errorf("make part %s: %w", part.Name, full(err))
	}
	return nil
}

func (t *target) directory(name string) error {
	if t.known[name] {
		return nil
	}
	if err := t.directory(path.Dir(name)); err != nil {
		return err
	}
	above, err := beneath(t.top, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("make directory %s: %w", name, err)
	}
	defer unix.Close(above)
	if err := unix.Mkdirat(above, path.Base(name), 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", name, full(err))
	}
	t.known[name] = true
	t.directories = append(t.directories, name)
	return nil
}

// close lets the directory go; undo removes all that was made, by name: it
// never looks for anything to remove.
func (t *target) close(undo bool) error {
	defer unix.Close(t.top)
	if !undo {
		return nil
	}
	remove := func(name string, flags int) error {
		above, err := beneath(t.top, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(above)
		return unix.Unlinkat(above, path.Base(name), flags)
	}
	var failed error
	for _, name := range t.files {
		failed = errors.Join(failed, remove(name, 0))
	}
	for _, name := range slices.Backward(t.directories) {
		failed = errors.Join(failed, remove(name, unix.AT_REMOVEDIR))
	}
	if t.made {
		failed = errors.Join(failed, os.Remove(filepath.Clean(t.path)))
	}
	return failed
}

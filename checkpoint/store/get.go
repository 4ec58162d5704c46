package store

import (
	"context"
	"fmt"
	"os"
	"runtime"

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

	way func(*checkpoint.Part) Way

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

// filed is for whoever wants every part in a file.
func filed(*checkpoint.Part) Way { return Filed }

// unpack writes an image into a directory, or leaves nothing there.
func unpack(ctx context.Context, image Image, digest checkpoint.Digest, directory string, way func(*checkpoint.Part) Way) (err error) {
	u := &unpacking{image: image, digest: digest, m: image.Manifest(), way: way}
	u.plan()
	if u.target, err = makeTarget(directory); err != nil {
		return err
	}
	defer func() {
		if closed := u.target.close(err != nil); err == nil {
			err = closed
		}
	}()
	if err := u.target.fits(u.bytes()); err != nil {
		return err
	}
	for i := range u.m.Parts {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		part := &u.m.Parts[i]
		size := part.Size
		switch way(part) {
		case LeftOut:
			continue
		case Fed:
			size = 0
		}
		if err := u.target.create(part.Name, size); err != nil {
			return err
		}
	}
	return u.run(ctx)
}

// bytes counts what is written, without holes.
func (u *unpacking) bytes() int64 {
	n := int64(0)
	for i := range u.m.Parts {
		if u.way(&u.m.Parts[i]) == Filed {
			n += u.m.Parts[i].DataBytes()
		}
	}
	return n
}

// plan lists the chunks in the order in which they first occur.
func (u *unpacking) plan() {
	first := map[checkpoint.Digest]int{}
	u.again = map[int][]location{}
	for i := range u.m.Parts {
		if u.way(&u.m.Parts[i]) != Filed {
			continue
		}
		at := int64(0)
		for j, c := range u.m.Parts[i].Chunks {
			if !c.Hole() {
				if n, seen := first[c.Sum]; seen {
					u.again[n] = append(u.again[n], location{uint32(i), at})
				} else {
					first[c.Sum] = len(u.wanted)
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

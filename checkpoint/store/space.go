package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Usage implements Store. It looks at every pack of every image.
func (d *Directory) Usage(ctx context.Context) (Usage, error) {
	return within(ctx, d, "count", d.usage)
}

func (d *Directory) usage(ctx context.Context) (Usage, error) {
	u := Usage{Limit: d.limits.Bytes}
	shared := map[uint64]bool{} // inodes that several images have, and that were counted
	for _, above := range []string{imagesName, makingName} {
		names, err := d.disk.Names(above)
		if err != nil {
			return u, err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return u, context.Cause(ctx)
			}
			if _, is := parseAbout(name); is && above == imagesName {
				u.Images++
			}
			taken, err := d.taken(path.Join(above, name), shared)
			if err != nil {
				return u, err
			}
			u.Used += taken
		}
	}
	free, err := d.disk.Free()
	u.Free = free
	return u, err
}

// taken counts the space of the files in a directory. What is gone meanwhile
// takes none.
func (d *Directory) taken(name string, shared map[uint64]bool) (int64, error) {
	files, err := d.disk.Names(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	bytes := int64(0)
	for _, file := range files {
		state, err := d.disk.Status(path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return bytes, err
		}
		if state.Links > 1 {
			if shared[state.Inode] {
				continue
			}
			shared[state.Inode] = true
		}
		bytes += state.Bytes
	}
	return bytes, nil
}

// room is what a Put may still write.
type room struct {
	d       *Directory
	used    int64 // of the limit, without what this Put wrote
	written int64
	left    int64 // until one has to look again
}

// enter refuses a Put for which there is no room now.
func (d *Directory) enter(ctx context.Context) (*room, error) {
	r := &room{d: d}
	if d.limits.Bytes > 0 {
		u, err := d.usage(ctx)
		if err != nil {
			return nil, err
		}
		r.used = u.Used
	}
	return r, r.look(0)
}

// look sees how much more there is room for, beyond bytes.
func (r *room) look(bytes int64) error {
	free, err := r.d.disk.Free()
	if err != nil {
		return err
	}
	keep, limit := r.d.limits.KeepFree, r.d.limits.Bytes
	r.left = min(free-keep, lookAgain)
	if r.left <= bytes {
		return fmt.Errorf("%w: the file system has %s free, and %s are to stay free: delete something there", ErrFull, size(free), size(keep))
	}
	if limit > 0 {
		r.left = min(r.left, limit-r.used-r.written)
		if r.left <= bytes {
			return fmt.Errorf("%w: images take %s, and the limit is %s: raise it, or let jobs that have images end", ErrFull, size(r.used+r.written), size(limit))
		}
	}
	return nil
}

// lookAgain is how much is written before one looks again how much is free.
const lookAgain = 64 << 20

// take accounts for bytes that are about to be written.
func (r *room) take(bytes int64) error {
	if bytes > r.left {
		if err := r.look(bytes); err != nil {
			return err
		}
	}
	r.left -= bytes
	r.written += bytes
	return nil
}

// size writes a number of bytes for people.
func size(n int64) string {
	const kib = 1 << 10
	switch {
	case n < kib:
		return fmt.Sprintf("%d B", max(n, 0))
	case n < kib<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	case n < kib<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(kib<<10))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(kib<<20))
}

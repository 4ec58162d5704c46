package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Fetch implements Store. What the job's newest image here has already is not
// read again.
func (d *Directory) Fetch(ctx context.Context, from Reader, image checkpoint.Digest) (Receipt, error) {
	return within(ctx, d, "copy an image into", func(ctx context.Context) (Receipt, error) {
		if receipt, is := d.whole(ctx, image); is {
			return receipt, nil
		}
		if _, err := d.tidy(ctx); err != nil {
			return Receipt{}, err
		}
		source, err := from.Open(ctx, image)
		if err != nil {
			return Receipt{}, err
		}
		receipt, err := d.fetch(ctx, source, image)
		return receipt, errors.Join(err, source.Close())
	})
}

// whole says whether an image is here already, with all its chunks.
func (d *Directory) whole(ctx context.Context, digest checkpoint.Digest) (Receipt, bool) {
	name, err := d.find(ctx, digest)
	if err != nil {
		return Receipt{}, false
	}
	there, err := d.open(ctx, name, digest)
	if err != nil {
		return Receipt{}, false
	}
	receipt := Receipt{Digest: digest, Bytes: there.manifest.Bytes()}
	return receipt, there.Close() == nil
}

func (d *Directory) fetch(ctx context.Context, source Image, digest checkpoint.Digest) (_ Receipt, err error) {
	m := source.Manifest()
	room, err := d.enter(ctx)
	if err != nil {
		return Receipt{}, err
	}
	making := path.Join(makingName, d.writer.next())
	defer release(path.Base(making))
	if err := d.disk.MakeDirectory(making); err != nil {
		return Receipt{}, err
	}
	defer d.touch(making)()
	defer func() {
		if err != nil {
			if left := d.empty(making); left != nil && !errors.Is(left, fs.ErrNotExist) {
				err = fmt.Errorf("%w; what was written stays until the store is tidied: %w", err, left)
			}
		}
	}()
	base, err := d.buildOn(ctx, m, making)
	if err != nil {
		return Receipt{}, err
	}
	c := &copying{d: d, digest: digest, source: source, making: making, room: room, target: targetFor(m.Bytes(), base.target)}
	if err := c.run(ctx, base); err != nil {
		return Receipt{}, err
	}
	if err := base.release(d); err != nil {
		return Receipt{}, err
	}
	receipt, err := d.publish(ctx, m, making, room)
	if err == nil && receipt.Digest != digest {
		err = fmt.Errorf("the manifest of image %s is written otherwise by this version, as %s: use one version on all nodes", digest, receipt.Digest)
	}
	return receipt, err
}

// copying is the way of stored chunks from one store into the packs of another.
// Each is checked before it is written, by unpacking it.
type copying struct {
	d      *Directory
	digest checkpoint.Digest
	source Image
	making string
	room   *room
	target int // of the packs' chunks
	pack   *packWriter
	into   []byte // memory for one chunk
}

func (c *copying) run(ctx context.Context, base *base) error {
	m := c.source.Manifest()
	var wanted []Ref
	for i := range m.Parts {
		for j, chunk := range m.Parts[i].Chunks {
			if !chunk.Hole() && base.claim(chunk.Sum) {
				wanted = append(wanted, Ref{uint32(i), uint32(j)})
			}
		}
	}
	err := c.source.Chunks(ctx, wanted, func(n int, stored []byte) error { return c.add(wanted[n], stored) })
	if c.pack != nil {
		if err == nil {
			return c.pack.finish()
		}
		err = errors.Join(err, c.pack.file.Close())
	}
	return err
}

func (c *copying) add(ref Ref, stored []byte) error {
	part := &c.source.Manifest().Parts[ref.Part]
	chunk := part.Chunks[ref.Chunk]
	if int64(cap(c.into)) < chunk.Size {
		c.into = make([]byte, 0, max(chunk.Size, 2*smallestTarget))
	}
	if _, err := expandChunk(chunk, stored, c.into); err != nil {
		return &Damage{Image: c.digest, Part: part.Name, Chunk: int(ref.Chunk), File: c.source.File(ref), What: err.Error()}
	}
	overhead := entryBytes
	if c.pack == nil {
		overhead += len(packMagic) + footerBytes
	}
	if err := c.room.take(int64(len(stored) + overhead)); err != nil {
		return err
	}
	if c.pack == nil {
		pack, err := newPackWriter(c.d.disk, path.Join(c.making, packName()), c.target)
		if err != nil {
			return err
		}
		c.pack = pack
	}
	if err := c.pack.add(stored, []entry{{digest: chunk.Sum, size: uint32(chunk.Size), stored: uint32(len(stored))}}); err != nil {
		return err
	}
	if !c.pack.full() {
		return nil
	}
	full := c.pack
	c.pack = nil
	return full.finish()
}

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Manifest implements Reader.
func (d *Directory) Manifest(ctx context.Context, image checkpoint.Digest) (*checkpoint.Manifest, error) {
	return within(ctx, d, "read an image's manifest in", func(ctx context.Context) (*checkpoint.Manifest, error) {
		name, err := d.find(ctx, image)
		if err != nil {
			return nil, err
		}
		m, _, err := d.readManifest(name, image)
		return m, err
	})
}

// readManifest answers the manifest of the image in a directory, and its bytes as they are
// stored.
func (d *Directory) readManifest(name string, image checkpoint.Digest) (*checkpoint.Manifest, []byte, error) {
	name = path.Join(name, manifestName)
	damaged := func(err error) error {
		return &Damage{Image: image, Chunk: -1, File: d.at(name), What: err.Error()}
	}
	file, err := d.disk.Open(name)
	var bad errPack
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, damaged(errors.New("it is gone"))
	case errors.As(err, &bad):
		return nil, nil, damaged(bad)
	case err != nil:
		return nil, nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, nil, err
	}
	if size > checkpoint.MaxManifestBytes {
		return nil, nil, damaged(fmt.Errorf("it has %d bytes", size))
	}
	data := make([]byte, size)
	switch _, err := file.ReadAt(data, 0); {
	case errors.As(err, &bad):
		return nil, nil, damaged(bad)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, nil, err
	}
	if bytes.HasPrefix(data, []byte(sealMagic)) {
		return nil, nil, fmt.Errorf("%w: this node's configuration names none: name the file of keys that the others have", ErrKey)
	}
	if m := d.decoded.of(image, data); m != nil {
		return m, data, nil
	}
	encoded, err := expandManifest(data)
	if err != nil {
		return nil, nil, damaged(err)
	}
	m, err := checkpoint.DecodeManifest(encoded, image)
	if err != nil {
		return nil, nil, damaged(err)
	}
	d.decoded.keep(image, data, m)
	return m, data, nil
}

// Open implements Reader.
func (d *Directory) Open(ctx context.Context, image checkpoint.Digest) (Image, error) {
	return within(ctx, d, "open an image in", func(ctx context.Context) (Image, error) {
		name, err := d.find(ctx, image)
		if err != nil {
			return nil, err
		}
		opened, err := d.open(ctx, name, image)
		if err != nil {
			return nil, err // and no Image, not one that is nil inside
		}
		return opened, nil
	})
}

// Get implements Reader.
func (d *Directory) Get(ctx context.Context, image checkpoint.Digest, directory string) error {
	_, err := within(ctx, d, "get an image from", func(ctx context.Context) (struct{}, error) {
		name, err := d.find(ctx, image)
		if err != nil {
			return struct{}{}, err
		}
		opened, err := d.open(ctx, name, image)
		if err == nil {
			err = errors.Join(unpack(ctx, opened, image, directory, filed), opened.Close())
		}
		var damage *Damage
		if errors.As(err, &damage) {
			d.markDamaged(name)
		}
		return struct{}{}, err
	})
	return err
}

// Feed implements Image.
func (i *directoryImage) Feed(ctx context.Context, directory string, way func(*checkpoint.Part) Way) (*Feed, error) {
	return within(ctx, i.d, "get an image from", func(ctx context.Context) (*Feed, error) {
		damaged := func() { i.d.markDamaged(i.name) }
		if err := unpack(ctx, i, i.digest, directory, way); err != nil {
			var damage *Damage
			if errors.As(err, &damage) {
				damaged()
			}
			return nil, errors.Join(err, i.Close())
		}
		return newFeed(ctx, i, i.digest, way, reachHere, damaged), nil
	})
}

// markDamaged keeps others from building on an image. If it cannot be marked,
// they find out themselves.
func (d *Directory) markDamaged(name string) {
	if file, err := d.disk.Create(path.Join(name, damagedName)); err == nil {
		_ = file.Close()
	}
}

// directoryImage is an image in a Directory, with its packs open.
type directoryImage struct {
	d        *Directory
	name     string // its directory
	digest   checkpoint.Digest
	manifest *checkpoint.Manifest
	packed   []byte
	packs    []*pack
	places   map[checkpoint.Digest]place
	buffers  [][]byte // to read into
}

// place is where a chunk lies.
type place struct {
	pack   int32
	stored uint32
	at     int64
}

func (d *Directory) open(ctx context.Context, name string, digest checkpoint.Digest) (_ *directoryImage, err error) {
	m, packed, err := d.readManifest(name, digest)
	if err != nil {
		return nil, err
	}
	image := &directoryImage{d: d, name: name, digest: digest, manifest: m, packed: packed, places: map[checkpoint.Digest]place{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, image.Close())
		}
	}()
	wanted := make(map[checkpoint.Digest]int64)
	for i := range m.Parts {
		for _, c := range m.Parts[i].Chunks {
			wanted[c.Sum] = c.Size
		}
	}
	files, err := d.disk.Names(name)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !strings.HasSuffix(file, packSuffix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		file = path.Join(name, file)
		p, err := openPack(d.disk, file)
		var bad errPack
		if errors.As(err, &bad) || errors.Is(err, io.EOF) {
			return nil, &Damage{Image: digest, Chunk: -1, File: d.at(file), What: err.Error()}
		}
		if err != nil {
			return nil, err
		}
		image.add(p, wanted)
	}
	return image, image.complete()
}

// add notes where the wanted chunks of a pack lie.
func (i *directoryImage) add(p *pack, wanted map[checkpoint.Digest]int64) {
	at := int64(len(packMagic))
	for _, e := range p.entries {
		if size, is := wanted[e.digest]; is && size == int64(e.size) {
			i.places[e.digest] = place{pack: int32(len(i.packs)), stored: e.stored, at: at}
		}
		at += int64(e.stored)
	}
	p.entries = nil
	i.packs = append(i.packs, p)
}

// complete says whether every chunk is in some pack.
func (i *directoryImage) complete() error {
	for _, part := range i.manifest.Parts {
		for n, c := range part.Chunks {
			if _, is := i.places[c.Sum]; !is && !c.Hole() {
				return &Damage{Image: i.digest, Part: part.Name, Chunk: n, What: "the pack with its bytes is gone"}
			}
		}
		if len(part.Chunks) == 0 && part.Size > 0 {
			return &Damage{Image: i.digest, Part: part.Name, Chunk: -1, What: "its manifest says nothing of its bytes"}
		}
	}
	return nil
}

func (i *directoryImage) Manifest() *checkpoint.Manifest { return i.manifest }
func (i *directoryImage) Packed() []byte                 { return i.packed }

// File implements Image.
func (i *directoryImage) File(ref Ref) string {
	at, known := i.places[i.manifest.Parts[ref.Part].Chunks[ref.Chunk].Sum]
	if !known {
		return ""
	}
	return i.d.at(i.packs[at.pack].name)
}

// Close implements Image.
func (i *directoryImage) Close() error {
	var err error
	for _, p := range i.packs {
		p.file.Forget(math.MaxInt64)
		err = errors.Join(err, p.file.Close())
	}
	i.packs = nil
	return err
}

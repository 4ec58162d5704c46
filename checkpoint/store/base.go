package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// maxBasePacks bounds how many packs of the image before are used again: what
// is in others is written again, all together.
const maxBasePacks = 256

// base is what a Put builds on: the packs of the same job's newest image, and
// the chunks in them. Images of other jobs are not looked at: it costs memory
// and time, and how much a Put writes would tell one user what another one's
// memory has.
type base struct {
	making string
	target int // of the chunks of that image; 0 = there is none
	packs  []basePack

	mu    sync.Mutex
	known map[checkpoint.Digest]int32 // index of the pack; written = this Put's own
}

const written = -1

type basePack struct {
	name    string
	target  int
	entries []entry
	live    int64 // stored bytes that the image before has of it
	used    bool  // by this image
}

// claim says whether a chunk is new: the caller, and no other, has to write it.
func (b *base) claim(chunk checkpoint.Digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, known := b.known[chunk]
	if !known {
		b.known[chunk] = written
	} else if at != written {
		b.packs[at].used = true
	}
	return !known
}

// release gives back the packs that the new image has nothing of.
func (b *base) release(d *Directory) error {
	for i := range b.packs {
		if !b.packs[i].used {
			if err := d.disk.Remove(path.Join(b.making, b.packs[i].name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildOn links the newest image of the manifest's job that is whole. That
// there is none is no error.
func (d *Directory) buildOn(ctx context.Context, m *checkpoint.Manifest, making string) (*base, error) {
	images, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	images = slices.DeleteFunc(images, func(a About) bool { return a.Job != m.Job || a.UID != m.UID })
	slices.SortStableFunc(images, func(a, b About) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), b.Saved.Compare(a.Saved))
	})
	for _, image := range images[:min(len(images), 2)] {
		b := &base{making: making, known: map[checkpoint.Digest]int32{}}
		switch err := d.linkAll(ctx, image.Digest, b); {
		case err == nil && len(b.packs) > 0:
			b.index()
			return b, nil
		case err != nil && !useless(err):
			return nil, err
		}
		b.packs = slices.Clip(b.packs)
		if err := b.release(d); err != nil {
			return nil, err
		}
	}
	return &base{making: making, known: map[checkpoint.Digest]int32{}}, nil
}

// useless says whether an error only means that an image cannot be built on.
func useless(err error) bool {
	var damage *Damage
	return errors.As(err, &damage) || errors.Is(err, ErrNoImage) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrKey)
}

// linkAll links the packs of which an image has at least half: what it has in
// other packs is written again, so that no image keeps more than twice its
// size.
func (d *Directory) linkAll(ctx context.Context, image checkpoint.Digest, b *base) error {
	name, err := d.find(ctx, image)
	if err != nil {
		return err
	}
	files, err := d.disk.Names(name)
	if err != nil {
		return err
	}
	if slices.Contains(files, damagedName) {
		return &Damage{Image: image, Chunk: -1, What: "damage was found in it before"}
	}
	m, _, err := d.readManifest(name, image)
	if err != nil {
		return err
	}
	has := make(map[checkpoint.Digest]bool)
	for i := range m.Parts {
		for _, c := range m.Parts[i].Chunks {
			has[c.Sum] = true
		}
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if !strings.HasSuffix(file, packSuffix) {
			continue
		}
		if err := d.linkPack(path.Join(name, file), has, b); err != nil {
			return err
		}
	}
	slices.SortFunc(b.packs, func(a, b basePack) int { return cmp.Or(cmp.Compare(b.live, a.live), strings.Compare(a.name, b.name)) })
	for len(b.packs) > maxBasePacks {
		last := len(b.packs) - 1
		if err := d.disk.Remove(path.Join(b.making, b.packs[last].name)); err != nil {
			return err
		}
		b.packs = b.packs[:last]
	}
	return nil
}

// linkPack adds one pack if it is worth it. A file system without hard links,
// or an inode with as many as it can have, means that the pack's chunks are
// written once more.
func (d *Directory) linkPack(from string, has map[checkpoint.Digest]bool, b *base) error {
	mine := path.Join(b.making, path.Base(from))
	if err := d.disk.Link(from, mine); err != nil {
		for _, cannot := range []error{unix.EPERM, unix.ENOTSUP, unix.EXDEV, unix.EMLINK, unix.ENOSYS} {
			if errors.Is(err, cannot) {
				return nil
			}
		}
		return err
	}
	opened, err := openPack(d.disk, mine)
	if err != nil {
		var bad errPack
		if errors.As(err, &bad) || errors.Is(err, ErrKey) {
			return d.disk.Remove(mine)
		}
		return err
	}
	if err := opened.file.Close(); err != nil {
		return err
	}
	pack := basePack{name: path.Base(mine), target: opened.target, entries: opened.entries}
	all := int64(0)
	for i := range pack.entries {
		stored := int64(pack.entries[i].stored)
		all += stored
		if has[pack.entries[i].digest] {
			pack.live += stored
		}
	}
	if 2*pack.live < all {
		return d.disk.Remove(mine)
	}
	b.packs = append(b.packs, pack)
	return nil
}

// index makes the chunks of the packs known.
func (b *base) index() {
	b.target = b.packs[0].target
	for i := range b.packs {
		for j := range b.packs[i].entries {
			b.known[b.packs[i].entries[j].digest] = int32(i)
		}
		b.packs[i].entries = nil
	}
}

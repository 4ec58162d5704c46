package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Put implements Store. In order: the job's image before is linked, so that
// nobody can delete it any longer; the parts are read, and packs written and
// synced; the manifest is written and synced; the directory that has all this
// is synced, renamed to the image's name, and that is synced. What is renamed
// is whole; a writer that dies before leaves something for Tidy, and no image.
func (d *Directory) Put(ctx context.Context, manifest *checkpoint.Manifest, directory string) (Receipt, error) {
	return d.putOrTake(ctx, manifest, directory, false)
}

func (d *Directory) putOrTake(ctx context.Context, manifest *checkpoint.Manifest, directory string, take bool) (Receipt, error) {
	m := *manifest
	m.Parts = withoutChunks(manifest.Parts)
	return within(ctx, d, "put an image into", func(ctx context.Context) (Receipt, error) {
		if err := m.Check(); err != nil {
			return Receipt{}, err
		}
		w, err := d.newWriter(ctx, &m, m.Bytes())
		if err != nil {
			return Receipt{}, err
		}
		return w.finish(ctx, &m, directory, take)
	})
}

func withoutChunks(parts []checkpoint.Part) []checkpoint.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Chunks = nil
	}
	return parts
}

// touch shows others that the writer is alive, until the answer is called.
func (d *Directory) touch(making string) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(touchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				// One that fails says nothing: Put's own steps do.
				_ = d.disk.Touch(making)
			}
		}
	}()
	return func() { close(over); <-ended }
}

// publish makes an image of what was made.
func (d *Directory) publish(ctx context.Context, m *checkpoint.Manifest, making string, room *room) (Receipt, error) {
	encoded, digest, err := m.Encode()
	if err != nil {
		return Receipt{}, err
	}
	name, err := imageName(m, digest)
	if err != nil {
		return Receipt{}, err
	}
	if err := d.writeFile(path.Join(making, manifestName), compressManifest(encoded), room); err != nil {
		return Receipt{}, err
	}
	if err := d.disk.SyncDirectory(making); err != nil {
		return Receipt{}, err
	}
	if err := d.stillFits(ctx); err != nil {
		return Receipt{}, err
	}
	if err := ctx.Err(); err != nil {
		return Receipt{}, context.Cause(ctx)
	}
	receipt := Receipt{Digest: digest, Bytes: m.Bytes(), WrittenBytes: room.written}
	image := path.Join(imagesName, name)
	err = d.disk.Rename(making, image)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		there, err := d.replace(ctx, making, image, digest)
		if err != nil {
			return Receipt{}, err
		}
		if there {
			receipt.WrittenBytes = 0
			return receipt, d.empty(making)
		}
	} else if err != nil {
		return Receipt{}, err
	}
	if err := d.disk.SyncDirectory(imagesName); err != nil {
		// It can be seen, and may be gone after a crash: nobody may count on it.
		return Receipt{}, errors.Join(err, d.discard(image))
	}
	return receipt, nil
}

// replace decides between an image that is there already and the same one that
// was just made: the old one stays unless it is damaged.
func (d *Directory) replace(ctx context.Context, making, image string, digest checkpoint.Digest) (there bool, err error) {
	var damage *Damage
	switch old, err := d.open(ctx, image, digest); {
	case err == nil:
		return true, errors.Join(old.Close(), d.disk.SyncDirectory(imagesName))
	case !errors.As(err, &damage):
		return false, err
	}
	if err := d.discard(image); err != nil && !errors.Is(err, ErrNoImage) {
		return false, err
	}
	return false, d.disk.Rename(making, image)
}

// stillFits counts again, with what others put meanwhile.
func (d *Directory) stillFits(ctx context.Context) error {
	if d.limits.Bytes <= 0 {
		return nil
	}
	u, err := d.usage(ctx)
	if err == nil && u.Used > u.Limit {
		err = fmt.Errorf("%w: images would take %s, and the limit is %s: raise it, or let jobs that have images end", ErrFull, size(u.Used), size(u.Limit))
	}
	return err
}

// writeFile writes a small file and syncs it.
func (d *Directory) writeFile(name string, data []byte, room *room) error {
	if err := room.take(int64(len(data))); err != nil {
		return err
	}
	file, err := d.disk.Create(name)
	if err != nil {
		return err
	}
	if _, err = file.Write(data); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// packName answers a name that no pack has.
func packName() string { return rand.Text() + packSuffix }

package imagedir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/partfs"
	"github.com/gleaner-hpc/gleaner/checkpoint/store"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// feedName is the directory, beside the image's, on which the parts are mounted that are
// read while they are restored.
const feedName = "feed"

// errMount is returned, wrapped, when this node cannot show what is streamed.
var errMount = errors.New("nothing can be streamed on this node")

// Ways says how each part of an image comes to CRIU on this node. It is the only place
// that decides that: without FUSE nothing is streamed.
type Ways struct {
	fuse  bool
	spare map[string]bool
}

// NewWays looks at this node. spare are parts that nobody needs.
func NewWays(spare map[string]bool) Ways {
	fuse, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fuse)
	}
	return Ways{fuse: err == nil, spare: spare}
}

// Of answers the way of one part.
func (w Ways) Of(part *checkpoint.Part) store.Way {
	switch {
	case w.spare[part.Name]:
		return store.LeftOut
	case w.fuse && container.Streams(part):
		return store.Fed
	}
	return store.Filed
}

// Bytes answers how many bytes of an image are unpacked, without holes.
func (w Ways) Bytes(m *checkpoint.Manifest) uint64 {
	n := m.Data // of an image of which only the facts are known
	for i := range m.Parts {
		if w.Of(&m.Parts[i]) == store.Filed {
			n += m.Parts[i].DataBytes()
		}
	}
	return uint64(n)
}

// Open makes the directory, and brings an image into it, which it closes in the end. Every
// byte of it is compared with its manifest: those of streamed parts as they are read.
// again opens the image once more, where nothing can be streamed. The context is only
// that of the call.
func Open(ctx context.Context, b bundle.Dir, stateDir string, image store.Image, again func() (store.Image, error), ways Ways, log *slog.Logger) (*Dir, error) {
	for {
		d, err := Make(b, stateDir, ways.Bytes(image.Manifest()), log)
		if err != nil {
			return nil, errors.Join(err, image.Close())
		}
		err = d.fill(ctx, image, ways)
		if err == nil {
			if n := len(d.feed.Parts()); n > 0 {
				log.Info("what the job had in memory is read while it is restored", "parts", n)
			}
			return d, nil
		}
		d.Drop()
		if !errors.Is(err, errMount) {
			return nil, fmt.Errorf("image: %w", err)
		}
		log.Info("the image is unpacked before it is restored, which takes longer: see whether this node has FUSE", "error", err)
		if image, err = again(); err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		ways.fuse = false
	}
}

// fill brings the image into the directory.
func (d *Dir) fill(ctx context.Context, image store.Image, ways Ways) (err error) {
	if d.feed, err = image.Feed(ctx, d.Path, ways.Of); err != nil {
		return err
	}
	if len(d.feed.Parts()) == 0 {
		return nil
	}
	on := filepath.Join(filepath.Dir(d.Path), feedName)
	if err := os.Mkdir(on, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make a directory for what is streamed of the image: %w", err)
	}
	if d.parts, err = partfs.New(on, d.feed, d.log); err == nil {
		err = d.parts.Show(func(part string) string { return filepath.Join(d.Path, part) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errMount, err)
	}
	return nil
}

// Whole answers why a part that was read is not as it was saved, or did not come, or nil.
func (d *Dir) Whole() error {
	if d == nil || d.feed == nil {
		return nil
	}
	return d.feed.Err()
}

// Stop ends the streaming: nobody reads any longer. It may be called again.
func (d *Dir) Stop() error {
	if d == nil || d.feed == nil {
		return nil
	}
	err := d.parts.Close()
	d.feed.Close()
	d.feed, d.parts = nil, nil
	on := filepath.Join(filepath.Dir(d.Path), feedName)
	if removed := os.Remove(on); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

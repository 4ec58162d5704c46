package roots

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
)

// This file shows, examines and empties the cache, for people.

// Errors of what people ask.
var (
	// ErrNone is returned, wrapped, for an image that the cache does not have.
	ErrNone = errors.New("the cache does not have it")
	// ErrInUse is returned, wrapped, for an image that a job has as its root, or that comes.
	ErrInUse = errors.New("it is in use")
	// ErrDamaged is returned, wrapped, for an image that is not as it was unpacked.
	ErrDamaged = errors.New("it is damaged")
)

// mostHoldings bounds how many images a cache knows by name. Their layers are bounded by
// what they take.
const mostHoldings = 1024

// Holding is an image that the cache knows.
type Holding struct {
	Digest string            // that pins it
	Names  map[uint32]string // by the users for whom it came, as each of them named it
	Bytes  int64             // of its layers that are there; images share layers
	Layers int
	There  int       // of the layers
	Used   time.Time // last; zero = unknown
	layers []string  // by DiffID
}

// List answers all images, by their digests.
func (c *Cache) List() ([]Holding, error) {
	entries, err := os.ReadDir(c.path(imagesDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look into the cache of container images: %w", err)
	}
	var all []Holding
	for _, entry := range entries {
		hex, is := strings.CutSuffix(entry.Name(), documentsSuffix)
		if !is || len(all) >= mostHoldings {
			continue
		}
		if h, err := c.Find("sha256:" + hex); err == nil {
			all = append(all, *h)
		}
	}
	return all, nil
}

// Used is how much all layers take.
func (c *Cache) Used() (bytes int64, err error) {
	layers, err := c.list()
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	for _, l := range layers {
		bytes += l.Bytes
	}
	return bytes, err
}

// Find answers one image.
func (c *Cache) Find(digest string) (*Holding, error) {
	k := new(kept)
	text, err := os.ReadFile(c.imagePath(digest))
	if err != nil || json.Unmarshal(text, k) != nil {
		return nil, ErrNone
	}
	image, err := manifest.Follow(k.Documents, digest, runtime.GOARCH)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	h := &Holding{Digest: digest, Names: k.Names}
	for _, l := range image.Layers {
		if slices.Contains(h.layers, l.DiffID.Hex) {
			continue
		}
		h.layers = append(h.layers, l.DiffID.Hex)
		r, there := c.readRecord(l.DiffID.Hex)
		if !there {
			continue
		}
		h.There++
		h.Bytes += r.Size.Bytes
		if info, err := os.Stat(c.path(locksDir, l.DiffID.Hex)); err == nil && info.ModTime().After(h.Used) {
			h.Used = info.ModTime()
		}
	}
	h.Layers = len(h.layers)
	return h, nil
}

// Remove takes an image out of the cache, with the layers that no other image of it has.
// What a process uses stays, all of it.
func (c *Cache) Remove(digest string) (freed int64, err error) {
	if err := c.makeDirs(); err != nil {
		return 0, err
	}
	defer c.sweep()
	unlock, err := c.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	h, err := c.Find(digest)
	if errors.Is(err, ErrDamaged) {
		return 0, c.forget(digest) // no job starts with it
	}
	if err != nil {
		return 0, err
	}
	own, err := c.ownLayers(h)
	if err != nil {
		return 0, err
	}
	var locked []*use
	defer func() {
		for _, l := range locked {
			l.Close()
		}
	}()
	for _, hex := range own {
		l, err := c.take(context.Background(), hex, unix.LOCK_EX, false)
		if err != nil {
			return 0, err
		}
		if l == nil {
			return 0, ErrInUse
		}
		locked = append(locked, l)
	}
	if err := c.forget(digest); err != nil {
		return 0, err
	}
	for _, l := range locked {
		r, _ := c.readRecord(l.hex)
		if err := c.dropHeld(l.hex); err != nil {
			return freed, err
		}
		freed += r.Size.Bytes
	}
	return freed, nil
}

// ownLayers are those of an image's layers, as far as they are there, that no other image
// has.
func (c *Cache) ownLayers(h *Holding) ([]string, error) {
	others, err := c.List()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(h.layers), func(hex string) bool {
		if _, err := os.Lstat(c.path(layersDir, hex)); err != nil {
			return true
		}
		return slices.ContainsFunc(others, func(o Holding) bool { return o.Digest != h.Digest && slices.Contains(o.layers, hex) })
	}), nil
}

// forget deletes what is kept of an image besides its layers.
func (c *Cache) forget(digest string) error {
	for _, path := range []string{c.imagePath(digest), c.signedPath(digest)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove a container image: %w", err)
		}
	}
	return nil
}

// Verify reads all of an image that is there, and compares it with what was unpacked.
func (c *Cache) Verify(ctx context.Context, digest string) error {
	h, err := c.Find(digest)
	if err != nil {
		return err
	}
	for _, hex := range h.layers {
		if err := c.verifyLayer(ctx, hex); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cache) verifyLayer(ctx context.Context, hex string) error {
	held, err := c.take(ctx, hex, unix.LOCK_SH, true)
	if err != nil {
		return err
	}
	defer held.Close()
	r, there := c.readRecord(hex)
	if !there {
		return nil // it comes when a job needs it
	}
	sum, err := c.sum(ctx, hex)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: layer sha256:%s cannot be read: %w", ErrDamaged, hex, err)
	case r.Sum == "":
		return c.change(hex, func(r *record) { r.Sum = sum }) // it came a moment ago
	case r.Sum != sum:
		return fmt.Errorf("%w: layer sha256:%s is not as it was unpacked", ErrDamaged, hex)
	}
	return nil
}

// sum is what identifies all that is in a layer. goci finds it with the layer as its root.
func (c *Cache) sum(ctx context.Context, hex string) (string, error) {
	top, err := os.Open(c.path(layersDir, hex, rootName))
	if err != nil {
		return "", err
	}
	defer top.Close()
	var out clipped
	p, err := c.unpacker(ctx, top, nil, &out, "sum")
	if err != nil {
		return "", err
	}
	if err := p.wait(); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// bound forgets the images that were named longest ago where there are too many. The
// caller has the lock of the cache.
func (c *Cache) bound() {
	entries, err := os.ReadDir(c.path(imagesDir))
	if err != nil || len(entries) <= 2*mostHoldings {
		return
	}
	type old struct {
		digest string
		at     time.Time
	}
	var all []old
	for _, entry := range entries {
		info, err := entry.Info()
		if hex, is := strings.CutSuffix(entry.Name(), documentsSuffix); is && err == nil {
			all = append(all, old{"sha256:" + hex, info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b old) int { return a.at.Compare(b.at) })
	for _, o := range all[:max(len(all)-mostHoldings, 0)] {
		_ = c.forget(o.digest) // the next one tries again
	}
}

const (
	documentsSuffix = ".json"
	signedSuffix    = ".signed"
)

func (c *Cache) signedPath(digest string) string {
	return filepath.Join(c.path(imagesDir), strings.TrimPrefix(digest, "sha256:")+signedSuffix)
}

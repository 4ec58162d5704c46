package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// bucketDisk is a disk in a bucket, where no name can be moved and none linked. So a
// directory of the store is a pointer, an empty object, and the files lie elsewhere:
//
//	making/WRITER/ID     a directory that is being made, and the folder with its files
//	images/IMAGE/ID      an image, and the same
//	data/ID/FILE         a file
//
// To publish an image, one object is made: its pointer. The other pointer is removed after
// that, so a writer that dies between the two leaves both: whoever removes something being
// made looks first whether an image has its folder.
//
// Two that do not know of each other cannot both succeed. A writer makes the image's pointer
// and looks then whether its own is still there; who takes it for dead removes its pointer
// and looks then whether an image has the folder. One of the two sees the other.
//
// A link is a copy that the server makes, and it is made when the image is published, for
// only then is it known which are needed.
type bucketDisk struct {
	bucket Bucket

	mu    sync.Mutex
	links map[string]string // names of files that are not copied yet, and the keys they are copies of
}

const (
	dataName = "data"
	// requestPatience bounds one request, with all that is tried again.
	requestPatience = time.Minute
	// copiesAtOnce bounds the requests for copies under way.
	copiesAtOnce = 8
	bucketRoom   = math.MaxInt64 / 4 // nobody knows how much a bucket takes
)

func newBucketDisk(bucket Bucket) *bucketDisk {
	return &bucketDisk{bucket: bucket, links: map[string]string{}}
}

// asked answers the context of one request. Who waits for the disk does not wait longer
// than its own context says (within).
func asked() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), requestPatience)
}

// errTaken is returned to a writer that slept for so long that another took it for dead.
var errTaken = fmt.Errorf("%w: what was being made was given up, for nothing was heard of its writer", fs.ErrNotExist)

// isTop says whether a name is one of those that lie at the top, which need not be made.
func isTop(name string) bool { return name == imagesName || name == makingName }

// folders answers the folders that have a directory's files, or fs.ErrNotExist.
func (b *bucketDisk) folders(ctx context.Context, directory string) ([]Object, error) {
	found, err := b.bucket.List(ctx, directory+"/")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &fs.PathError{Op: "find", Path: directory, Err: fs.ErrNotExist}
	}
	return found, nil
}

// dataKey answers where a file of a directory lies, whose pointer has this key.
func dataKey(pointer, file string) string { return path.Join(dataName, path.Base(pointer), file) }

// find answers the key of a file that is there.
func (b *bucketDisk) find(ctx context.Context, name string) (Object, error) {
	b.mu.Lock()
	from, linked := b.links[name]
	b.mu.Unlock()
	if linked {
		return b.bucket.Stat(ctx, from)
	}
	pointers, err := b.folders(ctx, path.Dir(name))
	if err != nil {
		return Object{}, err
	}
	for _, pointer := range pointers {
		object, err := b.bucket.Stat(ctx, dataKey(pointer.Key, path.Base(name)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return object, err
		}
	}
	return Object{}, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
}

func (b *bucketDisk) MakeDirectory(name string) error {
	if isTop(name) {
		return fs.ErrExist
	}
	ctx, cancel := asked()
	defer cancel()
	return b.bucket.Put(ctx, path.Join(name, path.Base(name)), nil, false)
}

func (b *bucketDisk) Names(name string) ([]string, error) {
	ctx, cancel := asked()
	defer cancel()
	if isTop(name) {
		found, err := b.bucket.List(ctx, name+"/")
		return elements(found, name+"/"), err
	}
	pointers, err := b.folders(ctx, name)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pointer := range pointers {
		below := dataKey(pointer.Key, "") + "/"
		found, err := b.bucket.List(ctx, below)
		if err != nil {
			return nil, err
		}
		names = append(names, elements(found, below)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// elements answers what comes first in each key after a prefix.
func elements(found []Object, prefix string) []string {
	var names []string
	for _, object := range found {
		name, _, _ := strings.Cut(strings.TrimPrefix(object.Key, prefix), "/")
		if name != "" && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (b *bucketDisk) Status(name string) (status, error) {
	ctx, cancel := asked()
	defer cancel()
	if strings.Count(name, "/") == 1 {
		pointers, err := b.folders(ctx, name)
		if err != nil {
			return status{}, err
		}
		s := status{Directory: true}
		for _, pointer := range pointers {
			if pointer.Changed.After(s.Changed) {
				s.Changed = pointer.Changed
			}
		}
		return s, nil
	}
	object, err := b.find(ctx, name)
	return status{Bytes: object.Bytes, Links: 1, Changed: object.Changed}, err
}

func (b *bucketDisk) Create(name string) (newFile, error) {
	ctx, cancel := asked()
	defer cancel()
	pointers, err := b.folders(ctx, path.Dir(name))
	if err != nil {
		return nil, gone(err)
	}
	return newUpload(b.bucket, dataKey(pointers[0].Key, path.Base(name))), nil
}

func (b *bucketDisk) Open(name string) (oldFile, error) {
	ctx, cancel := asked()
	defer cancel()
	object, err := b.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &bucketFile{bucket: b.bucket, object: object}, nil
}

// Link notes a copy that Rename makes.
func (b *bucketDisk) Link(old, name string) error {
	ctx, cancel := asked()
	defer cancel()
	object, err := b.find(ctx, old)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links[name] = object.Key
	return nil
}

// takeLinks answers the links in a directory, which are forgotten.
func (b *bucketDisk) takeLinks(directory string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[string]string{}
	for name, from := range b.links {
		if path.Dir(name) == directory {
			taken[path.Base(name)] = from
			delete(b.links, name)
		}
	}
	return taken
}

func (b *bucketDisk) Rename(old, name string) error {
	if path.Dir(name) == imagesName {
		return b.publish(old, name)
	}
	return b.putAway(old, name)
}

// publish makes an image of what was made.
func (b *bucketDisk) publish(making, image string) error {
	if err := b.copyLinks(making); err != nil {
		return err
	}
	ctx, cancel := asked()
	defer cancel()
	switch there, err := b.bucket.List(ctx, image+"/"); {
	case err != nil:
		return err
	case len(there) > 0:
		return fs.ErrExist
	}
	mine := path.Join(making, path.Base(making))
	if _, err := b.bucket.Stat(ctx, mine); err != nil {
		return gone(err)
	}
	pointer := path.Join(image, path.Base(making))
	err := b.bucket.Put(ctx, pointer, nil, false)
	if err == nil {
		_, err = b.bucket.Stat(ctx, mine)
	}
	if err != nil {
		// One that arrives nevertheless leads to nothing, and nobody asks for it.
		again, cancel := asked()
		defer cancel()
		return errors.Join(gone(err), b.bucket.Remove(again, pointer))
	}
	_ = b.bucket.Remove(ctx, mine) // one that stays is seen to be an image's, and goes with it
	return nil
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errTaken
	}
	return err
}

// copyLinks makes the copies that a directory's links stand for.
func (b *bucketDisk) copyLinks(making string) error {
	var copies errgroup.Group
	copies.SetLimit(copiesAtOnce)
	for file, from := range b.takeLinks(making) {
		copies.Go(func() error {
			ctx, cancel := asked()
			defer cancel()
			if err := b.bucket.Copy(ctx, from, dataKey(making, file)); err != nil {
				return fmt.Errorf("copy a pack of the image before: %w", err)
			}
			return nil
		})
	}
	return copies.Wait()
}

// putAway takes an image, or what is being made, out of sight.
func (b *bucketDisk) putAway(old, away string) error {
	ctx, cancel := asked()
	defer cancel()
	pointers, err := b.folders(ctx, old)
	if err != nil {
		return err
	}
	if path.Dir(old) == makingName {
		if err := b.unused(ctx, pointers); err != nil {
			return err
		}
	}
	for _, pointer := range pointers {
		if err := b.bucket.Put(ctx, path.Join(away, path.Base(pointer.Key)), nil, false); err != nil {
			return err
		}
		if err := b.bucket.Remove(ctx, pointer.Key); err != nil {
			return err
		}
	}
	return b.unused(ctx, pointers)
}

// unused refuses folders that an image has.
func (b *bucketDisk) unused(ctx context.Context, pointers []Object) error {
	images, err := b.bucket.List(ctx, imagesName+"/")
	if err != nil {
		return err
	}
	for _, image := range images {
		for _, pointer := range pointers {
			if path.Base(image.Key) == path.Base(pointer.Key) {
				return &fs.PathError{Op: "remove", Path: pointer.Key, Err: fs.ErrNotExist}
			}
		}
	}
	return nil
}

func (b *bucketDisk) Remove(name string) error {
	b.mu.Lock()
	_, linked := b.links[name]
	delete(b.links, name)
	b.mu.Unlock()
	if linked {
		return nil
	}
	ctx, cancel := asked()
	defer cancel()
	pointers, err := b.folders(ctx, path.Dir(name))
	if err != nil {
		return err
	}
	for _, pointer := range pointers {
		if err := b.bucket.Remove(ctx, dataKey(pointer.Key, path.Base(name))); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucketDisk) RemoveDirectory(name string) error {
	b.takeLinks(name)
	ctx, cancel := asked()
	defer cancel()
	pointers, err := b.folders(ctx, name)
	if err != nil {
		return err
	}
	for _, pointer := range pointers {
		if err := b.bucket.AbortAll(ctx, dataKey(pointer.Key, "")+"/"); err != nil {
			return err
		}
		if err := b.bucket.Remove(ctx, pointer.Key); err != nil {
			return err
		}
	}
	return nil
}

// SyncDirectory has nothing to do: what a server has confirmed is durable.
func (b *bucketDisk) SyncDirectory(string) error { return nil }

// Touch makes the pointer once more, unless it is gone meanwhile.
func (b *bucketDisk) Touch(name string) error {
	ctx, cancel := asked()
	defer cancel()
	pointer := path.Join(name, path.Base(name))
	if _, err := b.bucket.Stat(ctx, pointer); err != nil {
		return err
	}
	return b.bucket.Put(ctx, pointer, nil, true)
}

func (b *bucketDisk) Free() (int64, error) { return bucketRoom, nil }

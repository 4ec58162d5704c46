package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

var (
	// ErrNoImage is returned, wrapped, when a store has no image of that digest.
	ErrNoImage = errors.New("no such image")
	// ErrFull is returned, wrapped, when an image does not fit: into the store's
	// limit, its file system, its user's quota, or the directory it is to be
	// unpacked into. Nothing of it is left there.
	ErrFull = errors.New("not enough space")
	// ErrSilent is returned, wrapped, when a directory or a bucket did not answer in time:
	// its disk hangs, or the server that exports it is gone.
	ErrSilent = errors.New("the store does not answer")
	// ErrUnsafe is returned, wrapped, for a directory that others could read or
	// change.
	ErrUnsafe = errors.New("not safe for images")
	// ErrBroken is returned, wrapped, when the stream to another node broke too
	// often for a Remote to continue.
	ErrBroken = errors.New("the stream broke off")
)

// Damage is the error of an image that is not as it was put: something of it
// is gone, cut off or changed. Another image of the job may well be whole.
type Damage struct {
	Image checkpoint.Digest
	Part  string // "" = the image as a whole
	Chunk int    // of the part, from 0 on; -1 = none in particular
	File  string // of the store; "" = not known
	What  string // in words
}

// Error names the image, the part, the chunk and the file.
func (d *Damage) Error() string {
	text := fmt.Sprintf("image %s is damaged", d.Image)
	if d.Part != "" {
		text += ", in part " + d.Part
	}
	if d.Chunk >= 0 {
		text += fmt.Sprintf(", chunk %d", d.Chunk)
	}
	if d.File != "" {
		text += ", file " + d.File
	}
	return text + ": " + d.What
}

// Reader is where images are got from: a Directory, or a Remote.
type Reader interface {
	// Manifest answers what an image consists of, checked against its digest.
	// Errors: ErrNoImage, *Damage, ErrSilent, ErrBroken.
	Manifest(ctx context.Context, image checkpoint.Digest) (*checkpoint.Manifest, error)
	// Get writes the parts of an image into a directory, which is made (mode
	// 0700) or is there and empty: files of mode 0600, owned by the caller, with
	// holes where there were zeros. When it returns nil, each byte has the
	// SHA-256 that the manifest says; nothing is synced, for a crash ends the
	// restore too. When it returns an error, nothing is left of what it made.
	// Errors: as of Manifest, and ErrFull.
	Get(ctx context.Context, image checkpoint.Digest, directory string) error
	// Open answers an image to be read chunk by chunk, as Serve does, or to be fed. The
	// caller closes it. An image that is deleted meanwhile may or may not be read to
	// its end.
	Open(ctx context.Context, image checkpoint.Digest) (Image, error)
}

// Way is how a part of an image gets to whoever restores it.
type Way uint8

const (
	Filed   Way = iota // it is written into a file
	Fed                // its file is empty, and a Feed hands out its bytes while they are read
	LeftOut            // there is no file of it: nobody needs it
)

// Image is an image that is being read, by one goroutine at a time.
type Image interface {
	Manifest() *checkpoint.Manifest
	// Packed answers the manifest as it is stored and sent: a zstd frame of the bytes whose
	// SHA-256 is the image's digest.
	Packed() []byte
	// Chunks reads chunks that are no holes and calls each with one after the
	// other, as they are stored, until each answers an error, which it returns: a
	// chunk's own bytes where these are as many as it has, otherwise a zstd frame
	// of them. They are not checked: whoever unpacks them does. They stay as they
	// are only until each returns. n counts in wanted.
	Chunks(ctx context.Context, wanted []Ref, each func(n int, stored []byte) error) error
	// File says where a chunk lies, for errors; "" = not known.
	File(Ref) string
	// Feed does what Reader.Get does with the parts that go into files, and hands out
	// those that are fed. The image is the Feed's from then on, and is closed if there is
	// an error. The caller closes the Feed. The context is only that of the call.
	Feed(ctx context.Context, directory string, way func(*checkpoint.Part) Way) (*Feed, error)
	Close() error
}

// Ref names a chunk of an image: the part, and the chunk in it, from 0 on.
type Ref struct{ Part, Chunk uint32 }

// Dial opens a stream to whoever serves an image (Serve). A Remote calls it
// when it needs the first one, and again each time one breaks, to continue after
// the last whole chunk; it closes what it got.
type Dial func(ctx context.Context) (io.ReadWriteCloser, error)

// Store keeps images: a Directory. Its methods may be called from several
// goroutines at once, and by other processes and nodes on the same store.
type Store interface {
	Reader
	// Put makes an image of the parts that the manifest names, which lie in a
	// directory and do not change meanwhile. Name and size of each part must be
	// filled in; the chunks are made here, in a copy: the manifest of the image
	// is read with Manifest. When Put returns nil, the image is durable and can
	// be seen by all who share the store; when it returns an error, nothing of
	// it is left (what a dead writer leaves: Tidy). The same image put twice is
	// there once. Errors: ErrFull, ErrSilent, checkpoint.ErrManifest.
	Put(ctx context.Context, manifest *checkpoint.Manifest, directory string) (Receipt, error)
	// Take is a Put of parts that nobody needs any longer, whether it succeeds or
	// not: what was read of them is given back, disk and memory, while the rest
	// is packed. What they were is not written to the disk first, as it is by
	// the kernel after some time. The files stay, with holes.
	Take(ctx context.Context, manifest *checkpoint.Manifest, directory string) (Receipt, error)
	// Fetch copies an image from another store into this one, under the same
	// digest, and checks each chunk. What it promises is what Put does. One that
	// is here already is left as it is. Errors: as of Put and of Reader.Open.
	Fetch(ctx context.Context, from Reader, image checkpoint.Digest) (Receipt, error)
	// Begin begins an image of about so many bytes, whose parts do not all exist yet. Of
	// the manifest, only job and user are read. The caller finishes or abandons it.
	// The context is only that of the call.
	Begin(ctx context.Context, manifest *checkpoint.Manifest, bytes int64) (*Writer, error)
	// List answers what the store has, in the order of job, number and digest.
	// It opens no image: thousands of them cost one look into one directory.
	List(ctx context.Context) ([]About, error)
	// Delete removes an image; its chunks that no other image has go with it.
	// An image being put on top of it is not harmed. ErrNoImage if it is not
	// there.
	Delete(ctx context.Context, image checkpoint.Digest) error
	// Usage counts the space.
	Usage(ctx context.Context) (Usage, error)
	// Tidy removes what dead writers left and answers how many left-overs these
	// were; of those alive it removes nothing. OpenDirectory and Put do it too.
	Tidy(ctx context.Context) (int, error)
}

// Receipt is what Put answers.
type Receipt struct {
	Digest       checkpoint.Digest // of the manifest: names the image
	Bytes        int64             // of the parts
	WrittenBytes int64             // that the store has more than before
}

// About is what a store knows of an image without opening it.
type About struct {
	Digest checkpoint.Digest
	Job    uint32
	Epoch  uint32
	Number uint32
	UID    uint32
	Saved  time.Time // to the millisecond
	Bytes  int64     // of the parts
	Node   string    // that made it
}

// Usage is what a store takes.
type Usage struct {
	Images int
	Used   int64 // bytes on the disk, what is being written or left over included
	Limit  int64 // as in Limits
	Free   int64 // of the file system, for the caller
}

// Limits bound what a store takes of its file system. The zero value is no
// limit.
type Limits struct {
	// Bytes is what all images may take together, as Usage counts; 0 = no limit.
	// Two that are put at the same time count against each other.
	Bytes int64
	// KeepFree is what a Put leaves free on the file system for others.
	KeepFree int64
}

// Keep deletes the images of which keep says false, and answers those. The
// caller decides in doubt for true: an image that was put a moment ago may not
// be known yet to whoever decides.
func Keep(ctx context.Context, s Store, keep func(About) bool) ([]About, error) {
	images, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	var deleted []About
	for _, image := range images {
		if keep(image) {
			continue
		}
		if err := s.Delete(ctx, image.Digest); err != nil && !errors.Is(err, ErrNoImage) {
			return deleted, err
		}
		deleted = append(deleted, image)
	}
	return deleted, nil
}

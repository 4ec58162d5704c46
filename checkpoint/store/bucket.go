package store

import (
	"context"
	"errors"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// ErrRefused is returned, wrapped, when a server keeps the objects of a store from us: it does
// not know our credentials, or they do not allow it, or the clocks differ too much. Of the
// images in it this says nothing.
var ErrRefused = errors.New("the server of the bucket refuses it")

// Bucket is the part of a server of objects, such as one that speaks S3, in which a store
// lies. Keys have no meaning for it. It tries again what failed for a moment, as long as the
// context allows. Its methods may be called from several goroutines at once.
// Errors: fs.ErrNotExist for an object that is not there, ErrRefused, ErrFull, and ErrSilent
// if the server could not be asked in the end.
type Bucket interface {
	// Name answers where it is, for people: s3://BUCKET/PREFIX.
	Name() string
	// List answers what lies below a prefix, in the order of the keys.
	List(ctx context.Context, prefix string) ([]Object, error)
	Stat(ctx context.Context, key string) (Object, error)
	// Put makes an object, all of it or none. With onlyOver it is made only where one of the
	// same bytes is already, if the server can do that: otherwise it is fs.ErrNotExist.
	Put(ctx context.Context, key string, data []byte, onlyOver bool) error
	// ReadAt fills into from a place on, and answers io.EOF with what there was when the
	// object ends before.
	ReadAt(ctx context.Context, key string, into []byte, at int64) (int, error)
	// Copy makes an object of another one, without its bytes coming here.
	Copy(ctx context.Context, from, to string) error
	// Remove removes an object. One that is not there is no error.
	Remove(ctx context.Context, key string) error
	// Begin begins an object that comes in pieces. Nothing of it can be seen before Complete.
	Begin(ctx context.Context, key string) (upload string, err error)
	// Piece sends one, counted from 1 on, and answers what Complete needs of it. It may be
	// sent again. Each but the last has at least PieceBytes.
	Piece(ctx context.Context, key, upload string, number int, data []byte) (tag string, err error)
	Complete(ctx context.Context, key, upload string, tags []string) error
	Abort(ctx context.Context, key, upload string) error
	// AbortAll gives up what was begun below a prefix and not completed.
	AbortAll(ctx context.Context, prefix string) error
}

// Object is what a bucket says of one.
type Object struct {
	Key     string
	Bytes   int64
	Changed time.Time // by the server's clock
}

// PieceBytes is how long the pieces of an object are. Some of them are in memory at once.
const PieceBytes = 8 << 20

// OpenBucket opens a store in a bucket. What OpenDirectory promises holds for it as well.
func OpenBucket(ctx context.Context, bucket Bucket, limits Limits, keys *Keys) (*Directory, error) {
	d := newDirectory(bucket.Name(), sealed(newBucketDisk(bucket), keys), limits)
	_, err := within(ctx, d, "open", func(ctx context.Context) (struct{}, error) { return struct{}{}, d.begin(ctx) })
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Away says of an error that it says nothing about an image: the store that has it, or the
// node, cannot be asked, or does not let us read it now.
func Away(err error) bool {
	for _, away := range []error{ErrBroken, ErrSilent, ErrRefused, ErrKey} {
		if errors.Is(err, away) {
			return true
		}
	}
	return false
}

// damage makes a Damage of what went wrong when an image was read, unless the image is not
// at fault.
func damage(err error, image checkpoint.Digest, part string, chunk int, file string) error {
	if Away(err) {
		return err
	}
	return &Damage{Image: image, Part: part, Chunk: chunk, File: file, What: err.Error()}
}

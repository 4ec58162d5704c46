package store

import (
	"errors"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"
)

// piecesAtOnce is how many pieces of one object are under way; whoever writes waits then.
const piecesAtOnce = 2

// upload is a file that is being written into a bucket, piece by piece. One that fits into a
// piece is sent when it is whole.
type upload struct {
	bucket Bucket
	key    string
	piece  []byte

	id      string // "" = not begun
	count   int
	sending *errgroup.Group
	idle    chan []byte
	done    bool

	mu   sync.Mutex
	tags []string
	err  error // the first of a piece
}

func newUpload(bucket Bucket, key string) *upload {
	u := &upload{bucket: bucket, key: key, sending: new(errgroup.Group), idle: make(chan []byte, piecesAtOnce+1)}
	u.sending.SetLimit(piecesAtOnce)
	return u
}

// errNotWhole is returned when a file is used after it was closed.
var errNotWhole = errors.New("the object was given up")

func (u *upload) Write(data []byte) (int, error) {
	written := 0
	for len(data) > 0 {
		if err := u.failed(); err != nil {
			return written, err
		}
		if u.piece == nil {
			u.piece = u.memory()
		}
		n := min(len(data), PieceBytes-len(u.piece))
		u.piece = append(u.piece, data[:n]...)
		data, written = data[n:], written+n
		if len(u.piece) == PieceBytes && len(data) > 0 {
			if err := u.send(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

func (u *upload) memory() []byte {
	select {
	case used := <-u.idle:
		return used[:0]
	default:
		return make([]byte, 0, 64<<10) // it grows, for many objects are small
	}
}

func (u *upload) failed() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// send has the piece sent, as soon as one of those under way has arrived.
func (u *upload) send() error {
	if u.id == "" {
		ctx, cancel := asked()
		defer cancel()
		var err error
		if u.id, err = u.bucket.Begin(ctx, u.key); err != nil {
			return err
		}
	}
	u.count++
	number, data := u.count, u.piece
	u.piece = nil
	u.sending.Go(func() error {
		ctx, cancel := asked()
		defer cancel()
		tag, err := u.bucket.Piece(ctx, u.key, u.id, number, data)
		u.mu.Lock()
		defer u.mu.Unlock()
		if err != nil {
			u.err = errors.Join(u.err, err)
			return err
		}
		for len(u.tags) < number {
			u.tags = append(u.tags, "")
		}
		u.tags[number-1] = tag
		select {
		case u.idle <- data:
		default:
		}
		return nil
	})
	return nil
}

// Push has nothing to do: pieces are sent as they are full.
func (u *upload) Push() error { return u.failed() }

// Sync makes the object.
func (u *upload) Sync() error {
	if u.done {
		return errNotWhole
	}
	if u.id == "" {
		ctx, cancel := asked()
		defer cancel()
		if err := u.bucket.Put(ctx, u.key, u.piece, false); err != nil {
			return err
		}
		u.done, u.piece = true, nil
		return nil
	}
	if len(u.piece) > 0 {
		if err := u.send(); err != nil {
			return err
		}
	}
	if err := u.sending.Wait(); err != nil {
		return err
	}
	ctx, cancel := asked()
	defer cancel()
	if err := u.bucket.Complete(ctx, u.key, u.id, u.tags); err != nil {
		return err
	}
	u.done = true
	return nil
}

// Close gives the object up unless it was made.
func (u *upload) Close() error {
	if u.done {
		return nil
	}
	u.done = true
	_ = u.sending.Wait() // whoever wrote knows by now
	if u.id == "" {
		return nil
	}
	ctx, cancel := asked()
	defer cancel()
	return u.bucket.Abort(ctx, u.key, u.id)
}

// bucketFile is an object that is read.
type bucketFile struct {
	bucket Bucket
	object Object
}

func (f *bucketFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= f.object.Bytes {
		return 0, io.EOF
	}
	ctx, cancel := asked()
	defer cancel()
	want := min(int64(len(p)), f.object.Bytes-at)
	n, err := f.bucket.ReadAt(ctx, f.object.Key, p[:want], at)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *bucketFile) ReadDirect(p []byte, at int64) (int, error) { return f.ReadAt(p, at) }
func (f *bucketFile) Size() (int64, error)                       { return f.object.Bytes, nil }
func (f *bucketFile) Forget(int64)                               {}
func (f *bucketFile) Close() error                               { return nil }

package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Remote is a Reader of an image that another node serves.
type Remote struct {
	dial     Dial
	attempts int           // in a row without one chunk
	pause    time.Duration // before the second attempt; then longer
	quiet    time.Duration
}

// NewRemote answers a Reader over the streams that dial opens, one at a time.
// If a stream breaks, the Remote dials again, after a pause that grows, and asks only
// for what has not come yet. It returns ErrBroken when no chunk came over
// five streams in a row. It checks everything against the image's digest: a
// Remote need not trust the server.
func NewRemote(dial Dial) *Remote {
	return &Remote{dial: dial, attempts: 5, pause: 200 * time.Millisecond, quiet: quietFor}
}

// Manifest implements Reader.
func (r *Remote) Manifest(ctx context.Context, image checkpoint.Digest) (*checkpoint.Manifest, error) {
	opened, err := r.Open(ctx, image)
	if err != nil {
		return nil, err
	}
	return opened.Manifest(), opened.Close()
}

// Get implements Reader.
func (r *Remote) Get(ctx context.Context, image checkpoint.Digest, directory string) error {
	opened, err := r.Open(ctx, image)
	if err != nil {
		return err
	}
	if err := errors.Join(unpack(ctx, opened, image, directory, filed), opened.Close()); err != nil {
		return fmt.Errorf("get an image from another node: %w", err)
	}
	return nil
}

// feedAttempts make some 15 s: a feed goes on when the lead of the controllers, through
// which its bytes come, has changed hands. Whoever reads it meanwhile waits.
const feedAttempts = 10

// Open implements Reader.
func (r *Remote) Open(ctx context.Context, image checkpoint.Digest) (Image, error) {
	i := &remoteImage{remote: r, digest: image}
	if err := i.persist(ctx, func() (bool, error) { return false, i.connect(ctx) }); err != nil {
		return nil, fmt.Errorf("get an image from another node: %w", err)
	}
	return i, nil
}

// remoteImage is an image that another node serves.
type remoteImage struct {
	remote   *Remote
	digest   checkpoint.Digest
	manifest *checkpoint.Manifest // nil before the first stream
	packed   []byte

	conn *watched // nil = none
	in   *bufio.Reader
}

func (i *remoteImage) Manifest() *checkpoint.Manifest { return i.manifest }
func (i *remoteImage) Packed() []byte                 { return i.packed }
func (i *remoteImage) File(Ref) string                { return "" }

// Feed implements Image.
func (i *remoteImage) Feed(ctx context.Context, directory string, way func(*checkpoint.Part) Way) (*Feed, error) {
	patient := *i.remote
	patient.attempts = max(patient.attempts, feedAttempts)
	i.remote = &patient
	if err := unpack(ctx, i, i.digest, directory, way); err != nil {
		return nil, fmt.Errorf("get an image from another node: %w", errors.Join(err, i.Close()))
	}
	return newFeed(ctx, i, i.digest, way, reachThere, func() {}), nil
}

// Close implements Image.
func (i *remoteImage) Close() error {
	i.hangUp()
	return nil
}

func (i *remoteImage) hangUp() {
	if i.conn != nil {
		i.conn.Close() // what it says no longer matters
		i.conn = nil
	}
}

// persist calls try until it answers nil, or an error that another stream does
// not mend, or no attempt of several got on.
func (i *remoteImage) persist(ctx context.Context, try func() (progress bool, err error)) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = i.remote.pause, 25*i.remote.pause
	for failed := 0; ; {
		progress, err := try()
		if err == nil {
			return nil
		}
		i.hangUp()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if final(err) {
			return err
		}
		if failed++; progress {
			failed = 1
			pauses.Reset()
		}
		if failed >= i.remote.attempts {
			return fmt.Errorf("%w %d times: %w", ErrBroken, failed, err)
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mine is an error that has nothing to do with the stream.
type mine struct{ error }

func (m mine) Unwrap() error { return m.error }

func final(err error) bool {
	var (
		said told
		own  mine
	)
	return errors.As(err, &said) || errors.As(err, &own) || errors.Is(err, errWire)
}

// connect opens a stream and reads the manifest, which is the same each time.
func (i *remoteImage) connect(ctx context.Context) error {
	data, err := i.hail(ctx, wireMagic, frameManifest)
	if err != nil {
		return err
	}
	encoded, err := expandManifest(data)
	if err != nil {
		return mine{&Damage{Image: i.digest, Chunk: -1, What: "the manifest that the other node sent: " + err.Error()}}
	}
	m, err := checkpoint.DecodeManifest(encoded, i.digest)
	if err != nil {
		return mine{&Damage{Image: i.digest, Chunk: -1, What: "the manifest that the other node sent: " + err.Error()}}
	}
	i.manifest, i.packed = m, data
	return nil
}

// hail opens a stream, says what it is for, and reads the first frame.
func (i *remoteImage) hail(ctx context.Context, magic string, kind byte) ([]byte, error) {
	stream, err := i.remote.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn := watch(stream, i.remote.quiet)
	i.conn = conn
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	i.in = bufio.NewReaderSize(i.conn, 64<<10)
	if _, err := i.conn.Write(append([]byte(magic), i.digest[:]...)); err != nil {
		return nil, err
	}
	data, err := readFrame(i.in, kind, checkpoint.MaxManifestBytes, nil, i.digest)
	if err != nil {
		return nil, unexpected(err)
	}
	return data, nil
}

// Chunks implements Image.
func (i *remoteImage) Chunks(ctx context.Context, wanted []Ref, each func(n int, stored []byte) error) error {
	done := 0 // of wanted
	err := i.persist(ctx, func() (bool, error) {
		before := done
		if i.conn == nil {
			if err := i.connect(ctx); err != nil {
				return false, err
			}
		}
		err := i.stream(ctx, wanted[done:], func(n int, stored []byte) error {
			if err := each(before+n, stored); err != nil {
				return mine{err}
			}
			done = before + n + 1
			return nil
		})
		return done > before, err
	})
	var own mine
	if errors.As(err, &own) {
		return own.error
	}
	return err
}

// requestBytes is about how much one request asks for; three are under way.
const requestBytes = 4 << 20

// stream asks for chunks over one stream, and hands them on as they come.
func (i *remoteImage) stream(ctx context.Context, wanted []Ref, each func(n int, stored []byte) error) error {
	conn := i.conn
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	asked := make(chan int, 1) // how many chunks each request under way asks for
	failed := make(chan error, 1)
	over := make(chan struct{})
	go func() {
		defer close(asked)
		failed <- i.ask(conn, wanted, asked, over)
	}()
	err := i.receive(wanted, asked, each)
	if err != nil {
		conn.Close() // wakes who asks
	}
	close(over)
	return errors.Join(err, <-failed)
}

// ask sends requests, a little ahead of what comes.
func (i *remoteImage) ask(conn io.Writer, wanted []Ref, asked chan<- int, over <-chan struct{}) error {
	for begin := 0; begin < len(wanted); {
		end, bytes := begin, int64(0)
		for end < len(wanted) && end-begin < maxRequest && (end == begin || bytes < requestBytes) {
			bytes += i.manifest.Parts[wanted[end].Part].Chunks[wanted[end].Chunk].Size
			end++
		}
		if _, err := conn.Write(appendRequest(nil, wanted[begin:end])); err != nil {
			return err
		}
		select {
		case asked <- end - begin:
		case <-over:
			return nil
		}
		begin = end
	}
	return nil
}

func (i *remoteImage) receive(wanted []Ref, asked <-chan int, each func(n int, stored []byte) error) error {
	var buffer []byte
	n := 0
	for count := range asked {
		for range count {
			ref := wanted[n]
			size := i.manifest.Parts[ref.Part].Chunks[ref.Chunk].Size
			var err error
			if buffer, err = readFrame(i.in, frameChunk, size, buffer, i.digest); err != nil {
				return unexpected(err)
			}
			if err := each(n, buffer); err != nil {
				return err
			}
			n++
		}
	}
	if n < len(wanted) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

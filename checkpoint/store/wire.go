package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// How an image goes over a stream. Who wants it sends
//
//	magic (16 bytes), SHA-256 of the manifest (32)
//	a request: how many chunks (2 bytes), and for each its part and number (4 + 4)
//	… another request, and in the end one of 0 chunks, or nothing more
//
// and who has it answers with frames: a letter, the length (4 bytes), and as
// many bytes. The first is the manifest, as a zstd frame; then each chunk that
// was asked for, in that order, as it is stored. An error frame ends it. There
// may be requests under way while chunks come. Numbers are little-endian.
//
// Who wants only the facts of an image sends another magic, and gets one frame.
const (
	wireMagic  = "gleaner image 1\n"
	factsMagic = "gleaner facts 1\n"
	maxRequest = 512 // chunks

	frameManifest = 'M'
	frameFacts    = 'F' // a manifest's, as a zstd frame
	frameChunk    = 'C'
	frameNoImage  = 'N' // with a text
	frameDamage   = 'D' // with a text
	frameError    = 'E' // with a text

	maxErrorText = 4096
)

// quietFor is how long a stream may be still in the middle before it counts as
// broken.
const quietFor = 2 * time.Minute

// errWire is returned, wrapped, for what the other end must not send.
var errWire = errors.New("the other end does not speak as a store does")

// watched closes a stream that is still for too long.
type watched struct {
	io.ReadWriteCloser
	timer *time.Timer
	quiet time.Duration
	once  sync.Once
	err   error
}

func watch(stream io.ReadWriteCloser, quiet time.Duration) *watched {
	w := &watched{ReadWriteCloser: stream, quiet: quiet}
	w.timer = time.AfterFunc(quiet, func() { w.Close() })
	return w
}

func (w *watched) Read(into []byte) (int, error) {
	n, err := w.ReadWriteCloser.Read(into)
	w.timer.Reset(w.quiet)
	return n, err
}

func (w *watched) Write(data []byte) (int, error) {
	n, err := w.ReadWriteCloser.Write(data)
	w.timer.Reset(w.quiet)
	return n, err
}

// Close may be called more than once, and from any goroutine.
func (w *watched) Close() error {
	w.once.Do(func() {
		w.timer.Stop()
		w.err = w.ReadWriteCloser.Close()
	})
	return w.err
}

// writeFrame sends the head and the bytes of a frame.
func writeFrame(to io.Writer, kind byte, data []byte) error {
	head := [5]byte{kind}
	binary.LittleEndian.PutUint32(head[1:], uint32(len(data)))
	if _, err := to.Write(head[:]); err != nil {
		return err
	}
	_, err := to.Write(data)
	return err
}

// readFrame answers a frame of the kind that is due, with at most most bytes;
// into is memory for them. An error frame is answered as the error it tells.
func readFrame(from io.Reader, kind byte, most int64, into []byte, image checkpoint.Digest) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return into, err
	}
	length := int64(binary.LittleEndian.Uint32(head[1:]))
	switch head[0] {
	case kind:
	case frameNoImage, frameDamage, frameError:
		return into, readError(from, head[0], length, image)
	default:
		return into, fmt.Errorf("%w: it sent a frame %q where %q is due", errWire, head[0], kind)
	}
	if length > most {
		return into, fmt.Errorf("%w: it sent a frame of %d bytes where at most %d can be", errWire, length, most)
	}
	// Memory grows as bytes come, not as the other end says they will.
	into = into[:0]
	for int64(len(into)) < length {
		step := int(min(length-int64(len(into)), 1<<20))
		begin := len(into)
		into = append(into, make([]byte, step)...)
		if _, err := io.ReadFull(from, into[begin:]); err != nil {
			return into, unexpected(err)
		}
	}
	return into, nil
}

// unexpected makes an error of an end in the middle.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// told is an error that the other end told: to ask again would not help.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

func readError(from io.Reader, kind byte, length int64, image checkpoint.Digest) error {
	if length > maxErrorText {
		return fmt.Errorf("%w: it sent an error of %d bytes", errWire, length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(from, text); err != nil {
		return unexpected(err)
	}
	switch kind {
	case frameNoImage:
		return told{fmt.Errorf("%w as %s on the other node", ErrNoImage, image)}
	case frameDamage:
		return told{&Damage{Image: image, Chunk: -1, What: fmt.Sprintf("on the other node: %q", text)}}
	}
	return told{fmt.Errorf("the other node cannot send the image: %q", text)}
}

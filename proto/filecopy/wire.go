package filecopy

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed is returned, wrapped, for what the other end must not send.
var ErrMalformed = errors.New("the other end does not copy files as this one does")

// Kinds of frames: a letter, a length (4 bytes, big-endian), and as many bytes.
const (
	frameName    = 'N'
	frameEntry   = 'E'
	frameHave    = 'H'
	frameGo      = 'G'
	frameData    = 'D'
	frameSum     = 'S'
	frameDone    = 'K'
	frameTrouble = 'T'
	frameEnd     = '.'
)

const (
	dataBytes = 64 << 10
	// maxFrame bounds every frame: a path has 4096 bytes at most, in base64.
	maxFrame = 128 << 10
	maxText  = 1024
)

// entry is a file or a directory. Its path is relative to the source, with slashes; "" is
// the source itself.
type entry struct {
	Path      []byte `json:"path"`
	Directory bool   `json:"directory,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Mode      uint32 `json:"mode"`
}

// have is how much of a file is there.
type have struct {
	Offset int64  `json:"offset"`
	Sum    []byte `json:"sum,omitempty"`
}

// trouble is why something is not copied.
type trouble struct {
	Path []byte `json:"path"`
	Text string `json:"text"`
}

// wire reads and writes frames.
type wire struct {
	in  io.Reader
	out io.Writer
	buf []byte
}

func (w *wire) send(kind byte, data []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	_, err := w.out.Write(append(head, data...))
	return err
}

func (w *wire) sendJSON(kind byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.send(kind, data)
}

// next answers a frame; its bytes stay until the next one is read.
func (w *wire) next() (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[1:])
	if length > maxFrame {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, length)
	}
	if int(length) > len(w.buf) {
		w.buf = make([]byte, length)
	}
	data := w.buf[:length]
	if _, err := io.ReadFull(w.in, data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return head[0], data, nil
}

// expect reads a frame of a kind into value, or the trouble that the other end has instead.
func (w *wire) expect(kind byte, value any) (*trouble, error) {
	got, data, err := w.next()
	switch {
	case err != nil:
		return nil, err
	case got == frameTrouble:
		return readTrouble(data)
	case got != kind:
		return nil, fmt.Errorf("%w: a frame %q where %q is due", ErrMalformed, got, kind)
	case value == nil:
		return nil, nil
	}
	return nil, decode(data, value)
}

func decode(data []byte, value any) error {
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

func readTrouble(data []byte) (*trouble, error) {
	t := &trouble{}
	if err := decode(data, t); err != nil {
		return nil, err
	}
	t.Text = t.Text[:min(len(t.Text), maxText)]
	return t, nil
}

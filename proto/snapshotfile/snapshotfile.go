// Package snapshotfile is the form of a backup of the cluster's whole state: a
// header, the state in pieces, and a checksum of both. The same messages travel
// between a controller and a client, and lie in a file.
//
// Contract: who reads one to its end without an error has all of it, as it was
// written. Input is hostile: no more than a piece is held in memory, and what
// is claimed is never believed before it is there. What the state means is not
// known here.
package snapshotfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Format is that of the files this program writes and reads.
const Format = 1

// magic opens a file. The messages follow, each after its length as a varint.
const magic = "gleaner-snapshot\n"

// Limits.
const (
	// MaxPiece bounds the bytes of state in one message.
	MaxPiece = 128 << 10
	// MaxBytes bounds the state: many times what the largest queue takes.
	MaxBytes = 16 << 30
	// MaxRecorded bounds the recording: several times what the most runs take.
	MaxRecorded = 512 << 20
	// maxMessage bounds a message: a piece, or a header.
	maxMessage = MaxPiece + 1<<10
	maxText    = 256
	maxPeers   = 64
)

// Errors of this package.
var (
	// ErrDamaged is returned for what is not as it was written, or is cut off.
	ErrDamaged = errors.New("damaged snapshot")
	// ErrNewer is returned for a format of a newer program.
	ErrNewer = errors.New("this snapshot is of a newer program: use that one")
)

func damaged(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, arguments...))
}

// Checker takes the messages of one snapshot in their order. The zero value is
// ready.
type Checker struct {
	header *pb.SnapshotHeader
	sum    hash.Hash
	bytes  int64
	// recorded is the bytes of the recording so far.
	recorded int64
	done     bool
}

// Take checks the next message.
func (c *Checker) Take(chunk *pb.SnapshotChunk) error {
	switch what := chunk.GetWhat().(type) {
	case *pb.SnapshotChunk_Header:
		return c.takeHeader(what.Header)
	case *pb.SnapshotChunk_Data:
		return c.takeData(what.Data)
	case *pb.SnapshotChunk_Recording:
		return c.takeRecording(what.Recording)
	case *pb.SnapshotChunk_Sha256:
		switch {
		case c.header == nil || c.done:
			return damaged("a checksum where none belongs")
		case !bytes.Equal(what.Sha256, c.sum.Sum(nil)):
			return damaged("the checksum is wrong")
		}
		c.done = true
		return nil
	}
	return damaged("a message of no known kind")
}

func (c *Checker) takeHeader(header *pb.SnapshotHeader) error {
	if c.header != nil {
		return damaged("a second header")
	}
	if header.GetFormat() > Format {
		return fmt.Errorf("%w (format %d)", ErrNewer, header.GetFormat())
	}
	if header.GetFormat() == 0 || len(header.GetPeers()) > maxPeers {
		return damaged("the header is none")
	}
	for _, text := range append([]string{header.GetClusterName(), header.GetVersion()}, header.GetPeers()...) {
		if len(text) > maxText || !utf8.ValidString(text) {
			return damaged("a text in the header is none")
		}
	}
	c.header, c.sum = header, sha256.New()
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(header)
	c.sum.Write(text)
	return err
}

func (c *Checker) takeData(data []byte) error {
	switch {
	case c.header == nil || c.done:
		return damaged("state where none belongs")
	case len(data) == 0 || len(data) > MaxPiece:
		return damaged("a piece of %d bytes", len(data))
	case c.bytes+int64(len(data)) > MaxBytes:
		return damaged("it is larger than %d GiB", MaxBytes>>30)
	}
	c.bytes += int64(len(data))
	c.sum.Write(data)
	return nil
}

func (c *Checker) takeRecording(piece []byte) error {
	switch {
	case c.header == nil || c.done:
		return damaged("a recording where none belongs")
	case len(piece) == 0 || len(piece) > MaxPiece:
		return damaged("a piece of %d bytes", len(piece))
	case c.recorded+int64(len(piece)) > MaxRecorded:
		return damaged("its recording is larger than %d MiB", MaxRecorded>>20)
	}
	c.recorded += int64(len(piece))
	c.sum.Write([]byte("recording")) // or a piece could pass for one of the state
	c.sum.Write(piece)
	return nil
}

// Header is what the snapshot says of itself; nil before it came.
func (c *Checker) Header() *pb.SnapshotHeader { return c.header }

// Bytes of state that came so far.
func (c *Checker) Bytes() int64 { return c.bytes }

// Finish reports whether all of it came.
func (c *Checker) Finish() error {
	if !c.done {
		return damaged("it ends after %d bytes of state, before its checksum", c.bytes)
	}
	return nil
}

// Send cuts a state into messages: header, recording, pieces, checksum. The recording
// comes in pieces; state may be nil.
func Send(header *pb.SnapshotHeader, recording iter.Seq[*pb.Recording], state func(io.Writer) error, send func(*pb.SnapshotChunk) error) error {
	var checker Checker
	pass := func(chunk *pb.SnapshotChunk) error {
		if err := checker.Take(chunk); err != nil {
			return err
		}
		return send(chunk)
	}
	if err := pass(&pb.SnapshotChunk{What: &pb.SnapshotChunk_Header{Header: header}}); err != nil {
		return err
	}
	for piece := range recording {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(piece)
		if err == nil {
			err = pass(&pb.SnapshotChunk{What: &pb.SnapshotChunk_Recording{Recording: text}})
		}
		if err != nil {
			return err
		}
	}
	if state != nil {
		pieces := bufio.NewWriterSize(pieceWriter(func(piece []byte) error {
			return pass(&pb.SnapshotChunk{What: &pb.SnapshotChunk_Data{Data: bytes.Clone(piece)}})
		}), MaxPiece)
		if err := state(pieces); err != nil {
			return err
		}
		if err := pieces.Flush(); err != nil {
			return err
		}
	}
	return pass(&pb.SnapshotChunk{What: &pb.SnapshotChunk_Sha256{Sha256: checker.sum.Sum(nil)}})
}

type pieceWriter func([]byte) error

func (p pieceWriter) Write(bytes []byte) (written int, err error) {
	for len(bytes) > 0 {
		piece := bytes[:min(len(bytes), MaxPiece)]
		if err := p(piece); err != nil {
			return written, err
		}
		written += len(piece)
		bytes = bytes[len(piece):]
	}
	return written, nil
}

// Writer writes messages to a file.
type Writer struct {
	out   io.Writer
	begun bool
}

// NewWriter writes to out, which should be buffered.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Add writes one message.
func (w *Writer) Add(chunk *pb.SnapshotChunk) error {
	if !w.begun {
		if _, err := io.WriteString(w.out, magic); err != nil {
			return err
		}
		w.begun = true
	}
	_, err := protodelim.MarshalTo(w.out, chunk)
	return err
}

// Read reads a file to its end, and gives each message to each once it was
// checked; each may be nil. It returns what came, even with an error.
func Read(in io.Reader, each func(*pb.SnapshotChunk) error) (*Checker, error) {
	checker, reader := &Checker{}, bufio.NewReaderSize(in, MaxPiece)
	word := make([]byte, len(magic))
	if _, err := io.ReadFull(reader, word); err != nil || string(word) != magic {
		return checker, damaged("it does not begin as a snapshot does")
	}
	for {
		var chunk pb.SnapshotChunk
		err := protodelim.UnmarshalOptions{MaxSize: maxMessage}.UnmarshalFrom(reader, &chunk)
		if errors.Is(err, io.EOF) {
			return checker, checker.Finish()
		}
		if err != nil {
			return checker, damaged("after %d bytes of state: %v", checker.bytes, err)
		}
		if err := checker.Take(&chunk); err != nil {
			return checker, err
		}
		if each != nil {
			if err := each(&chunk); err != nil {
				return checker, err
			}
		}
	}
}

package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Serve sends one image of a store, and no other, to whoever is at the other
// end of the stream: a Remote. It answers nil when the Remote needs nothing else, or
// has gone between two requests. It closes the stream then, and when the
// context ends. The context's end, and a peer that is silent for two
// minutes, are errors.
func Serve(ctx context.Context, stream io.ReadWriteCloser, from Reader, image checkpoint.Digest) error {
	return serveWith(ctx, stream, from, image, serve)
}

type server func(ctx context.Context, conn io.ReadWriter, from Reader, image checkpoint.Digest) error

func serveWith(ctx context.Context, stream io.ReadWriteCloser, from Reader, image checkpoint.Digest, serve server) error {
	conn := watch(stream, quietFor)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	err := serve(ctx, conn, from, image)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("send image %s: %w", image, err)
	}
	return nil
}

// sendBytes is how much is sent at a time: several chunks. A tunnel makes a message of it.
const sendBytes = 256 << 10

func serve(ctx context.Context, conn io.ReadWriter, from Reader, image checkpoint.Digest) error {
	in, out := bufio.NewReader(conn), bufio.NewWriterSize(conn, sendBytes)
	if err := greeted(in, out, wireMagic, image); err != nil {
		return err
	}
	opened, err := from.Open(ctx, image)
	if err != nil {
		return refuse(out, err)
	}
	defer opened.Close()
	if err := writeFrame(out, frameManifest, opened.Packed()); err != nil {
		return err
	}
	for {
		// What was asked for must be on its way before more is waited for.
		if err := out.Flush(); err != nil {
			return err
		}
		wanted, err := readRequest(in, opened.Manifest())
		if errors.Is(err, io.EOF) || err == nil && len(wanted) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		var lost error // of the stream
		err = opened.Chunks(ctx, wanted, func(_ int, stored []byte) error {
			lost = writeFrame(out, frameChunk, stored)
			return lost
		})
		if lost != nil {
			return lost
		}
		if err != nil {
			return refuse(out, err)
		}
	}
}

// greeted reads what is asked for first, and refuses all but what the stream is for.
func greeted(in io.Reader, out *bufio.Writer, magic string, image checkpoint.Digest) error {
	hello := make([]byte, len(magic)+len(image))
	if _, err := io.ReadFull(in, hello); err != nil {
		return err
	}
	if said := string(hello[:len(magic)]); said == wireMagic || said == factsMagic {
		if asked := checkpoint.Digest(hello[len(magic):]); said != magic || asked != image {
			return refuse(out, fmt.Errorf("%w: %s was asked for, and this stream is for another, or only for what a machine needs to know", ErrNoImage, asked))
		}
		return nil
	}
	return errWire
}

// refuse tells the other end why, and answers why.
func refuse(out *bufio.Writer, why error) error {
	kind := byte(frameError)
	var damage *Damage
	switch {
	case errors.Is(why, ErrNoImage):
		kind = frameNoImage
	case errors.As(why, &damage):
		kind = frameDamage
	}
	text := why.Error()
	return errors.Join(why, writeFrame(out, kind, []byte(text[:min(len(text), maxErrorText)])), out.Flush())
}

// readRequest answers what is asked for: chunks that the image has. io.EOF
// means that the other end is gone.
func readRequest(in io.Reader, m *checkpoint.Manifest) ([]Ref, error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	count := int(binary.LittleEndian.Uint16(head[:]))
	if count > maxRequest {
		return nil, fmt.Errorf("%w: it asks for %d chunks at once", errWire, count)
	}
	raw := make([]byte, 8*count)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, unexpected(err)
	}
	wanted := make([]Ref, count)
	for i := range wanted {
		ref := Ref{Part: binary.LittleEndian.Uint32(raw[8*i:]), Chunk: binary.LittleEndian.Uint32(raw[8*i+4:])}
		if !holds(m, ref) {
			return nil, fmt.Errorf("%w: it asks for chunk %d of part %d, which the image does not have", errWire, ref.Chunk, ref.Part)
		}
		wanted[i] = ref
	}
	return wanted, nil
}

// holds says whether an image has a chunk that is no hole.
func holds(m *checkpoint.Manifest, ref Ref) bool {
	if int64(ref.Part) >= int64(len(m.Parts)) {
		return false
	}
	chunks := m.Parts[ref.Part].Chunks
	return int64(ref.Chunk) < int64(len(chunks)) && !chunks[ref.Chunk].Hole()
}

func appendRequest(data []byte, wanted []Ref) []byte {
	data = binary.LittleEndian.AppendUint16(data, uint16(len(wanted)))
	for _, ref := range wanted {
		data = binary.LittleEndian.AppendUint32(data, ref.Part)
		data = binary.LittleEndian.AppendUint32(data, ref.Chunk)
	}
	return data
}

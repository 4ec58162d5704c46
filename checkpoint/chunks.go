package checkpoint

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// Chunk is a piece of a part as stores keep it: once, however many images of
// a job have it.
type Chunk struct {
	Size int64 // before compression
	// Sum is the BLAKE3 of its bytes. All zero: the bytes are zeros, as many as
	// Size says, and nothing is stored of them.
	Sum Digest
}

// Hole says whether a chunk is nothing but zeros.
func (c Chunk) Hole() bool { return c.Sum == Digest{} }

// Chunks are those of a part, in order. An image of some gigabytes has tens of thousands,
// and its manifest is read several times while its job stands: so they are written as one
// text, base64 of the size (8 bytes, little-endian) and the sum of each.
type Chunks []Chunk

const chunkBytes = 8 + len(Digest{})

// MarshalText implements encoding.TextMarshaler.
func (c Chunks) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, len(c)*chunkBytes)
	for i := range c {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(c[i].Size))
		raw = append(raw, c[i].Sum[:]...)
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

var errChunks = errors.New("no list of chunks")

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Chunks) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%chunkBytes != 0 {
		return fmt.Errorf("%w: %.40q", errChunks, text)
	}
	*c = make(Chunks, len(raw)/chunkBytes)
	for i := range *c {
		(*c)[i].Size = int64(binary.LittleEndian.Uint64(raw[i*chunkBytes:]))
		(*c)[i].Sum = Digest(raw[i*chunkBytes+8:][:len(Digest{})])
	}
	return nil
}

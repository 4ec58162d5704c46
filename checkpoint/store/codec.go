package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// chunkDecoder unpacks chunks: never more than there is room for.
var chunkDecoder = sync.OnceValue(func() *zstd.Decoder {
	return mustDecoder(zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(2*checkpoint.MaxChunkBytes))
})

var manifestDecoder = sync.OnceValue(func() *zstd.Decoder {
	return mustDecoder(zstd.WithDecoderMaxMemory(checkpoint.MaxManifestBytes))
})

var manifestEncoder = sync.OnceValue(func() *zstd.Encoder {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)) // sums do not get smaller
	if err != nil {
		panic(err) // the options are constants
	}
	return encoder
})

func mustDecoder(options ...zstd.DOption) *zstd.Decoder {
	decoder, err := zstd.NewReader(nil, append(options, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true))...)
	if err != nil {
		panic(err) // the options are constants
	}
	return decoder
}

func compressManifest(encoded []byte) []byte { return manifestEncoder().EncodeAll(encoded, nil) }

func expandManifest(data []byte) ([]byte, error) { return manifestDecoder().DecodeAll(data, nil) }

// sumOf answers the sum of a chunk. BLAKE3 takes two thirds of SHA-256's time on a
// processor that has instructions for SHA-256, and far less on one that has none.
func sumOf(data []byte) checkpoint.Digest { return blake3.Sum256(data) }

// expandChunk answers the bytes of a chunk, checked. into is memory for them.
func expandChunk(c checkpoint.Chunk, stored, into []byte) ([]byte, error) {
	data := stored
	if int64(len(stored)) != c.Size {
		if int64(cap(into)) < c.Size {
			into = make([]byte, 0, c.Size)
		}
		var err error
		if data, err = chunkDecoder().DecodeAll(stored, into[:0:c.Size]); err != nil {
			return nil, fmt.Errorf("its bytes cannot be unpacked: %w", err)
		}
	}
	if int64(len(data)) != c.Size || sumOf(data) != c.Sum {
		return nil, errors.New("its bytes do not have the sum that the manifest says")
	}
	return data, nil
}

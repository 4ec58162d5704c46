package store

import (
	"bytes"
	"math"

	"github.com/cespare/xxhash/v2"
)

// unit is the length of what chunks and holes consist of. Memory pages and the
// members of tar archives both begin at a multiple of it.
const unit = 512

// zeros is what a unit of a hole looks like.
var zeros [unit]byte

// cutter finds where a part is cut into chunks: behind a unit whose hash is
// small, so that the places depend on the bytes and not on where they lie. A
// memory area that grew shifts what follows it in CRIU's pages file, and all
// of that is cut as before. A run of zeros is a hole, and no chunk.
type cutter struct {
	target    int    // chunks have about this length
	minimum   int    // shorter only before a hole and at a part's end
	maximum   int    // never longer
	hole      int    // a run of zeros as long as this is one
	threshold uint64 // a unit whose hash is below ends a chunk
}

// newCutter answers a cutter for chunks of about target bytes, a power of two.
func newCutter(target int) cutter {
	minimum := target / 4
	units := (target - minimum) / unit // between the minimum and the cut, on average
	return cutter{
		target:    target,
		minimum:   minimum,
		maximum:   2 * target,
		hole:      target / 2,
		threshold: math.MaxUint64 / uint64(units),
	}
}

// next answers how long the first piece of data is, and whether it is a hole.
// data begins where a piece begins, and has at least maximum bytes unless it is
// the last of its part. inHole: the piece before was a hole, which may continue.
func (c cutter) next(data []byte, last, inHole bool) (length int, hole bool) {
	if !last {
		data = data[:len(data)-len(data)%unit] // the rest of a unit is not there yet
	}
	zero := leadingZeros(data)
	if zero >= c.hole || zero > 0 && inHole || last && zero == len(data) {
		return zero, true
	}
	run := zero // of zeros, up to at
	for at := zero; at < len(data); {
		piece := data[at:min(at+unit, len(data))]
		at += len(piece)
		if bytes.Equal(piece, zeros[:len(piece)]) {
			if run += len(piece); run >= c.hole {
				return at - run, false
			}
		} else {
			run = 0
			if at >= c.minimum && xxhash.Sum64(piece) < c.threshold {
				return at, false
			}
		}
		if at >= c.maximum {
			return at, false
		}
	}
	return len(data), false
}

// leadingZeros counts the zeros that data begins with, in whole units; a
// shorter rest counts as one.
func leadingZeros(data []byte) int {
	at := 0
	for at < len(data) {
		piece := data[at:min(at+unit, len(data))]
		if !bytes.Equal(piece, zeros[:len(piece)]) {
			break
		}
		at += len(piece)
	}
	return at
}

// Targets of chunks. An image has about targetChunks of them at most, whatever
// its size, as long as largestTarget allows: the memory that its list and the
// index over it take does not grow.
const (
	smallestTarget = 64 << 10
	largestTarget  = 4 << 20
	targetChunks   = 1 << 16
)

// targetFor answers the length of chunks for an image of that many bytes. The
// image before had the target before (0 = there was none), which is kept while
// it is near enough: other cuts would make every chunk a new one.
func targetFor(bytes int64, before int) int {
	target := smallestTarget
	for target < largestTarget && bytes/int64(target) > targetChunks {
		target *= 2
	}
	if before == target/2 || before == target*2 {
		return max(smallestTarget, min(before, largestTarget))
	}
	return target
}

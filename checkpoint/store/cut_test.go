package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// cutAll cuts data as read does, with as much of it in memory at a time as
// window says.
func cutAll(c cutter, data []byte, window int) (pieces []piece) {
	inHole := false
	for at := 0; at < len(data); {
		end := min(len(data), at+window)
		for at < end && (end == len(data) || end-at >= c.maximum) {
			size, hole := c.next(data[at:end], end == len(data), inHole)
			p := piece{size: size, hole: hole}
			if !hole {
				p.sum = sha256.Sum256(data[at : at+size])
			}
			pieces = append(pieces, p)
			at, inHole = at+size, hole
		}
	}
	return pieces
}

func TestCutsDoNotDependOnWhatIsInMemory(t *testing.T) {
	c := newCutter(smallestTarget)
	for seed := range uint64(20) {
		data := memory(source(seed), 700)
		if seed%3 == 0 {
			data = data[:len(data)-int(seed)*37]
		}
		want := appendPieces(nil, cutAll(c, data, len(data)))
		for _, window := range []int{c.maximum, c.maximum + unit, 3*c.maximum + 17, 1 << 20} {
			if got := appendPieces(nil, cutAll(c, data, window)); !slices.Equal(got, want) {
				t.Fatalf("seed %d: with %d bytes in memory there are %d chunks, not %d, or others", seed, window, len(got), len(want))
			}
		}
	}
}

func TestChunksAreNeitherTooLongNorTooMany(t *testing.T) {
	c := newCutter(smallestTarget)
	same := bytes.Repeat([]byte{7}, 3<<20) // the hash of every unit is the same
	for name, data := range map[string][]byte{
		"noise": noise(source(1), 8<<20), "memory": memory(source(2), 2000), "zeros": make([]byte, 5<<20+3), "one byte": {1}, "one zero": {0}, "the same": same,
	} {
		at, short := 0, 0
		pieces := cutAll(c, data, 1<<20)
		for i, p := range pieces {
			content := data[at : at+p.size]
			at += p.size
			if zero := leadingZeros(content) == len(content); p.hole && !zero {
				t.Fatalf("%s: what is no zeros is a hole", name)
			}
			beforeHole := i+1 < len(pieces) && pieces[i+1].hole
			if !p.hole && p.size > c.maximum {
				t.Fatalf("%s: a chunk has %d bytes", name, p.size)
			}
			if !p.hole && p.size < c.minimum && !beforeHole && i+1 < len(pieces) {
				short++
			}
		}
		if at != len(data) || short > 0 {
			t.Errorf("%s: pieces of %d of %d bytes, %d of them too short", name, at, len(data), short)
		}
	}
}

func TestChunksHaveAboutTheirTarget(t *testing.T) {
	for target := smallestTarget; target <= 1<<20; target *= 4 {
		data := noise(source(3), 100*target)
		if n := len(cutAll(newCutter(target), data, len(data))); n < 80 || n > 125 {
			t.Errorf("%d bytes have %d chunks of about %d", len(data), n, target)
		}
	}
}

func TestTheTargetGrowsWithTheImageAndStaysPut(t *testing.T) {
	for _, c := range []struct {
		bytes  int64
		before int
		want   int
	}{
		{0, 0, 64 << 10}, {1 << 30, 0, 64 << 10}, {4 << 30, 0, 64 << 10}, {5 << 30, 0, 128 << 10}, {5 << 30, 64 << 10, 64 << 10},
		{3 << 30, 128 << 10, 128 << 10}, {100 << 30, 64 << 10, 2 << 20}, {1 << 40, 0, 4 << 20}, {1 << 40, 8 << 20, 4 << 20}, {1 << 30, 32 << 10, 64 << 10},
	} {
		if got := targetFor(c.bytes, c.before); got != c.want {
			t.Errorf("%d bytes after chunks of %d: %d, not %d", c.bytes, c.before, got, c.want)
		}
	}
}

// BenchmarkCuts shows how much of an image is new when pages of it changed or
// came in between, for chunks of several lengths, and for chunks of one fixed
// length, which is what was not chosen.
func BenchmarkCuts(b *testing.B) {
	const pages = 64 << 10
	data := make([]byte, 0, pages*4096)
	r := source(4)
	for len(data) < cap(data) {
		data = append(data, memory(r, 256)...)
	}
	changes := []struct {
		name string
		make func() []byte
	}{
		{"60 pages changed", func() []byte {
			changed := slices.Clone(data)
			for range 60 {
				copy(changed[r.IntN(pages)*4096:], noise(r, 4096))
			}
			return changed
		}},
		{"1 page more in the middle", func() []byte { return slices.Insert(slices.Clone(data), len(data)/2, noise(r, 4096)...) }},
		{"512 bytes more in the middle", func() []byte { return slices.Insert(slices.Clone(data), len(data)/2, noise(r, 512)...) }},
	}
	for _, change := range changes {
		for _, target := range []int{16 << 10, 64 << 10, 256 << 10, 1 << 20} {
			c := newCutter(target)
			b.Run(fmt.Sprintf("%s/content/%dKiB", change.name, target>>10), func(b *testing.B) {
				benchCuts(b, data, change.make(), func(data []byte) []piece { return cutAll(c, data, len(data)) })
			})
			b.Run(fmt.Sprintf("%s/fixed/%dKiB", change.name, target>>10), func(b *testing.B) {
				benchCuts(b, data, change.make(), func(data []byte) (pieces []piece) {
					for chunk := range slices.Chunk(data, target) {
						pieces = append(pieces, piece{size: len(chunk), sum: sha256.Sum256(chunk)})
					}
					return pieces
				})
			})
		}
	}
}

func benchCuts(b *testing.B, before, after []byte, all func([]byte) []piece) {
	for range b.N {
		known := map[checkpoint.Digest]bool{}
		for _, p := range all(before) {
			known[p.sum] = true
		}
		fresh := 0
		for _, p := range all(after) {
			if !known[p.sum] && !p.hole {
				fresh += p.size
			}
		}
		b.ReportMetric(100*float64(fresh)/float64(len(after)), "%-new")
	}
}

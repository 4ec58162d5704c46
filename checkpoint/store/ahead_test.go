package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadPastThePageCache: of an image that is read, nothing comes into the page cache
// where the file system can do that, and what is there already is read from there; the
// bytes are the same.
func TestReadPastThePageCache(t *testing.T) {
	d := newStore(t, Limits{})
	s := sample{"pages-1.img": noise(source(4), 40<<20), "pages-2.img": memory(source(5), 900)}
	image := s.put(t, d, 1, 1).Digest
	packs, err := filepath.Glob(filepath.Join(d.path, imagesName, "*", "*"+packSuffix))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	cached := func() (pages uint64) {
		for _, pack := range packs {
			file, err := os.Open(pack)
			if err != nil {
				t.Fatal(err)
			}
			var state unix.Cachestat_t
			if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &state, 0); err != nil {
				t.Skip("needs Linux 6.5: asks what is in the page cache")
			}
			pages += state.Cache
			file.Close()
		}
		return pages
	}
	if fd, err := unix.Open(packs[0], unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0); err != nil {
		t.Skipf("needs a file system that reads past the page cache: %v", err)
	} else {
		unix.Close(fd)
	}
	s.get(t, d, image)
	if left := cached(); left > 10<<20/4096 {
		t.Errorf("%d pages are in the cache after the image was read", left)
	}
	for _, pack := range packs {
		if _, err := os.ReadFile(pack); err != nil {
			t.Fatal(err)
		}
	}
	s.get(t, d, image)
}

// TestChunksInAnyOrder: chunks are handed out in the order in which they are wanted,
// whatever their places in the packs, and each as often as it is wanted.
func TestChunksInAnyOrder(t *testing.T) {
	d := newStore(t, Limits{})
	whole := noise(source(6), 6<<20)
	image := sample{"pages-1.img": whole}.put(t, d, 1, 1).Digest
	opened, err := d.Open(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	part := opened.Manifest().Parts[0]
	begin := make([]int64, len(part.Chunks)+1)
	for i, c := range part.Chunks {
		begin[i+1] = begin[i] + c.Size
	}
	random := source(7)
	var wanted []Ref
	for range 200 {
		first := random.IntN(len(part.Chunks))
		for i := first; i < min(first+random.IntN(30), len(part.Chunks)); i++ {
			wanted = append(wanted, Ref{0, uint32(i)})
		}
	}
	next := 0
	err = opened.Chunks(t.Context(), wanted, func(n int, stored []byte) error {
		i := wanted[n].Chunk
		if n != next {
			t.Errorf("got %d and not %d", n, next)
		}
		next++
		data, err := expandChunk(part.Chunks[i], stored, nil)
		if err == nil && !bytes.Equal(data, whole[begin[i]:begin[i+1]]) {
			t.Errorf("chunk %d is another one", i)
		}
		return err
	})
	if err != nil || next != len(wanted) {
		t.Errorf("got %d of %d: %v", next, len(wanted), err)
	}
}

package store

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// cached answers how many pages of a file are in the page cache.
func cached(t *testing.T, name string) uint64 {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var state unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &state, 0); err != nil {
		t.Skip("needs cachestat, of Linux 6.5: ", err)
	}
	return state.Cache
}

// TestThePageCacheStaysAsItWas: neither what is read nor what is written stays
// in memory.
func TestThePageCacheStaysAsItWas(t *testing.T) {
	d := newStore(t, Limits{})
	m, directory := sample{"pages-1.img": noise(source(1), 16<<20)}.write(t, 1, 1)
	part := filepath.Join(directory, "pages-1.img")
	file, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if cached(t, part) > 0 {
		t.Skip("needs a disk: on this file system nothing leaves the page cache")
	}
	receipt, err := d.Put(t.Context(), m, directory)
	if err != nil {
		t.Fatal(err)
	}
	const few = 64 // pages; read ahead by the kernel, or not written out yet
	if n := cached(t, part); n > few {
		t.Errorf("%d pages of what was read are cached", n)
	}
	packs, err := filepath.Glob(filepath.Join(d.path, imagesName, "*", "*"+packSuffix))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	look := func(what string) {
		t.Helper()
		for _, pack := range packs {
			if n := cached(t, pack); n > few {
				t.Errorf("%d pages of what was %s are cached", n, what)
			}
		}
	}
	look("written")
	if err := d.Get(t.Context(), receipt.Digest, filepath.Join(t.TempDir(), "restored")); err != nil {
		t.Fatal(err)
	}
	look("got")
}

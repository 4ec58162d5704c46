package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// sample is an image's parts, by name.
type sample map[string][]byte

// source makes bytes that are the same for the same seed.
func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// noise answers bytes that cannot be compressed.
func noise(r *rand.Rand, n int) []byte {
	data := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		w := r.Uint64()
		for k := range 8 {
			data[i+k] = byte(w >> (8 * k))
		}
	}
	return data
}

// memory answers pages as a program's memory has them: noise, words, zeros and
// the same page again.
func memory(r *rand.Rand, pages int) []byte {
	const page = 4096
	data := make([]byte, 0, pages*page)
	same := noise(r, page)
	for len(data) < pages*page {
		run := min(1+r.IntN(40), pages-len(data)/page)
		switch r.IntN(5) {
		case 0, 1:
			data = append(data, noise(r, run*page)...)
		case 2:
			for range run {
				line := fmt.Sprintf("%d: a line of some text, as programs keep it\n", r.IntN(1000))
				data = append(data, bytes.Repeat([]byte(line), page/len(line)+1)[:page]...)
			}
		case 3:
			data = append(data, make([]byte, run*page)...)
		default:
			data = append(data, bytes.Repeat(same, run)...)
		}
	}
	return data
}

// program is a sample like an image of CRIU's.
func program(seed uint64, pages int) sample {
	r := source(seed)
	return sample{
		"criu/pages-1.img":     memory(r, pages),
		"criu/core-1.img":      noise(r, 900),
		"criu/pagemap-1.img":   []byte("a small one"),
		"criu/empty.img":       {},
		"upper.tar":            append(noise(r, 3*unit), make([]byte, 100<<10)...),
		"run/deep/er/file":     []byte("x"),
		"zeros":                make([]byte, 300<<10+7),
		"criu/pages-2.img":     memory(r, pages/8),
		"an odd näme, too.img": noise(r, 5001),
	}
}

// write puts the parts into a new directory and answers it with a manifest.
func (s sample) write(tb testing.TB, job, number uint32) (*checkpoint.Manifest, string) {
	tb.Helper()
	directory := tb.TempDir()
	m := &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: job, Epoch: 1, Number: number, Node: "node-1", SavedMS: 1700000000000 + int64(number), UID: 1000, Root: "host"}
	for name, data := range s {
		file := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			tb.Fatal(err)
		}
		m.Parts = append(m.Parts, checkpoint.Part{Name: name, Size: int64(len(data))})
	}
	slices.SortFunc(m.Parts, func(a, b checkpoint.Part) int { return strings.Compare(a.Name, b.Name) })
	return m, directory
}

// put writes the sample and puts it.
func (s sample) put(tb testing.TB, into Store, job, number uint32) Receipt {
	tb.Helper()
	m, directory := s.write(tb, job, number)
	receipt, err := into.Put(tb.Context(), m, directory)
	if err != nil {
		tb.Fatal(err)
	}
	return receipt
}

// check compares a directory with the sample: the same files with the same
// bytes, and nothing else.
func (s sample) check(tb testing.TB, directory string) {
	tb.Helper()
	seen := 0
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(directory, path)
		if err != nil {
			return err
		}
		want, is := s[name]
		if !is {
			return fmt.Errorf("%s was never put", name)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s has other bytes", name)
		}
		info, err := entry.Info()
		if err == nil && info.Mode() != 0o600 {
			err = fmt.Errorf("%s has mode %v", name, info.Mode())
		}
		seen++
		return err
	})
	if err == nil && seen != len(s) {
		err = fmt.Errorf("%d of %d parts are there", seen, len(s))
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// get gets an image and compares it.
func (s sample) get(tb testing.TB, from Reader, image checkpoint.Digest) {
	tb.Helper()
	directory := filepath.Join(tb.TempDir(), "restored")
	if err := from.Get(tb.Context(), image, directory); err != nil {
		tb.Fatal(err)
	}
	s.check(tb, directory)
}

// newStore opens a store in a new directory.
func newStore(tb testing.TB, limits Limits) *Directory {
	tb.Helper()
	return openStore(tb, filepath.Join(tb.TempDir(), "store"), limits)
}

func openStore(tb testing.TB, path string, limits Limits) *Directory {
	tb.Helper()
	d, err := OpenDirectory(tb.Context(), path, limits)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	return d
}

// blocks answers how much of a file is on the disk.
func blocks(tb testing.TB, file string) int64 {
	tb.Helper()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		tb.Fatal(err)
	}
	return st.Blocks * 512
}

// chunksOf answers how many bytes an image has in chunks, unpacked and each once, and
// how many of them are in packs that no other image shares.
func chunksOf(tb testing.TB, d *Directory, digest checkpoint.Digest) (own, all int64) {
	tb.Helper()
	name, err := d.find(tb.Context(), digest)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := d.Manifest(tb.Context(), digest)
	if err != nil {
		tb.Fatal(err)
	}
	needed := map[checkpoint.Digest]int64{}
	for i := range m.Parts {
		for _, c := range m.Parts[i].Chunks {
			if !c.Hole() {
				needed[c.Sum] = c.Size
			}
		}
	}
	for _, size := range needed {
		all += size
	}
	packs, err := filepath.Glob(filepath.Join(d.path, name, "*"+packSuffix))
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range packs {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			tb.Fatal(err)
		}
		if st.Nlink > 1 {
			continue
		}
		p, err := openPack(d.disk, filepath.Join(name, filepath.Base(file)))
		if err != nil {
			tb.Fatal(err)
		}
		for _, e := range p.entries {
			own += needed[e.digest]
			delete(needed, e.digest)
		}
		if err := p.file.Close(); err != nil {
			tb.Fatal(err)
		}
	}
	return own, all
}

// mustBeEmpty fails if something was left behind.
func mustBeEmpty(tb testing.TB, directory string) {
	tb.Helper()
	names, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	for _, name := range names {
		tb.Errorf("%s was left in %s", name.Name(), directory)
	}
}

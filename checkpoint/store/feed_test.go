package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// pages are the parts that the tests have fed, and what is spare is left out.
func pages(p *checkpoint.Part) Way {
	switch {
	case strings.HasPrefix(p.Name, "pages-"):
		return Fed
	case p.Name == "spare":
		return LeftOut
	}
	return Filed
}

// feedOf feeds the pages of an image, and unpacks what else it has.
func feedOf(t *testing.T, r Reader, image checkpoint.Digest) (*Feed, string) {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "restored")
	opened, err := r.Open(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	f, err := opened.Feed(t.Context(), directory, pages)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, directory
}

// readFrom reads a part from a place on, to its end or at most so many bytes.
func readFrom(f *Feed, part string, at, most int64) ([]byte, error) {
	var got []byte
	for int64(len(got)) < most {
		pieces, done, err := f.Read(part, at, min(most-int64(len(got)), 1<<20))
		if err != nil {
			return got, err
		}
		data := slices.Concat(pieces...)
		got = append(got, data...)
		at += int64(len(data))
		done()
		if len(data) == 0 {
			break
		}
	}
	return got, nil
}

// TestFeed: what is fed is what was put, in order and from any place, for several
// readers at once, and the other parts are in their files.
func TestFeed(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		random := source(5)
		large := append(memory(random, 2000), make([]byte, 3<<20)...)
		s := sample{
			"core-1.img": noise(random, 3000), "pages-0.img": {}, "pages-1.img": append(large, memory(random, 700)...),
			"pages-2.img": noise(random, 5<<20+777), "pages-3.img": make([]byte, 2<<20), "spare": memory(random, 50), "upper.tar": memory(random, 100),
		}
		image := s.put(t, d, 1, 1).Digest
		f, directory := feedOf(t, r, image)
		if got := strings.Join(f.Parts(), " "); got != "pages-1.img pages-2.img pages-3.img" {
			t.Fatalf("fed are %s", got)
		}
		for name, data := range s {
			if name == "spare" {
				if _, err := os.Lstat(filepath.Join(directory, name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("what is left out is there: %v", err)
				}
				continue
			}
			if strings.HasPrefix(name, "pages-") {
				data = nil
			}
			if got, err := os.ReadFile(filepath.Join(directory, name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s has %d bytes and not %d, or others: %v", name, len(got), len(data), err)
			}
		}
		var readers sync.WaitGroup
		for _, name := range f.Parts() {
			whole := s[name]
			readers.Go(func() {
				if got, err := readFrom(f, name, 0, f.Size(name)); err != nil || !bytes.Equal(got, whole) {
					t.Errorf("read %d bytes of %s and not its %d: %v", len(got), name, len(whole), err)
				}
			})
			for seed := range uint64(3) {
				readers.Go(func() {
					r := source(seed)
					for range 40 {
						at, most := r.Int64N(int64(len(whole))), 1+r.Int64N(300<<10)
						want := whole[at:min(at+most, int64(len(whole)))]
						if got, err := readFrom(f, name, at, most); err != nil || !bytes.Equal(got, want) {
							t.Errorf("read %d other bytes of %s at %d: %v", len(got), name, at, err)
							return
						}
					}
				})
			}
		}
		readers.Wait()
		if data, done, err := f.Read("pages-2.img", 1<<40, 10); len(data) > 0 || err != nil {
			t.Errorf("behind the end are %d bytes, %v", len(data), err)
		} else {
			done()
		}
		if _, _, err := f.Read("core-1.img", 0, 10); err == nil {
			t.Error("a part is fed that is in a file")
		}
	})
}

// TestFeedIsBounded: whatever the image's size and however many read at once, no more
// is in memory than a feed may hold.
func TestFeedIsBounded(t *testing.T) {
	d := newStore(t, Limits{})
	s := sample{"pages-1.img": noise(source(1), int(3*reachHere.all/2))}
	f, _ := feedOf(t, d, s.put(t, d, 1, 1).Digest)
	var readers sync.WaitGroup
	for seed := range uint64(8) {
		readers.Go(func() {
			r := source(seed)
			for range 60 {
				data, done, err := f.Read("pages-1.img", r.Int64N(int64(len(s["pages-1.img"]))), 4096)
				if err != nil || len(data) == 0 {
					t.Errorf("read %d bytes, %v", len(data), err)
					return
				}
				f.mu.Lock()
				if held := int64(len(f.held)+len(f.idle)) * f.longest; held > reachHere.all+8*f.longest {
					t.Errorf("%d bytes are held", held)
				}
				f.mu.Unlock()
				done()
			}
		})
	}
	readers.Wait()
}

// TestFeedOfDamage: of a damaged image no byte leaves the feed that is not as it was put,
// the error names the damage, and no other image is built on it.
func TestFeedOfDamage(t *testing.T) {
	d := newStore(t, Limits{})
	whole := noise(source(3), 20<<20)
	image := sample{"pages-1.img": whole}.put(t, d, 1, 1).Digest
	packs, _ := filepath.Glob(filepath.Join(d.path, imagesName, "*", "*"+packSuffix))
	file, err := os.OpenFile(packs[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("damage"), 11<<20); err != nil {
		t.Fatal(err)
	}
	file.Close()
	f, _ := feedOf(t, d, image)
	got, err := readFrom(f, "pages-1.img", 0, f.Size("pages-1.img"))
	var damage *Damage
	if !errors.As(err, &damage) || damage.Part != "pages-1.img" || damage.File == "" || !errors.As(f.Err(), &damage) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if !bytes.Equal(got, whole[:len(got)]) || len(got) > 11<<20 {
		t.Errorf("%d bytes were fed, or others than were put", len(got))
	}
	f.Close()
	if marks, _ := filepath.Glob(filepath.Join(d.path, imagesName, "*", damagedName)); len(marks) != 1 {
		t.Errorf("the image is marked %d times", len(marks))
	}
	if _, _, err := f.Read("pages-1.img", 0, 1); err == nil {
		t.Error("a feed that is closed hands out bytes")
	}
}

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

func TestASecondImageWritesWhatChanged(t *testing.T) {
	d := newStore(t, Limits{})
	first := program(1, 4000)
	was := first.put(t, d, 7, 1)
	// How many bytes chunks take on the disk depends on how much time there was to
	// compress them (pace.go). Which of them an image wrote does not.
	if own, all := chunksOf(t, d, was.Digest); all == 0 || own != all {
		t.Errorf("the first image has %d bytes in chunks, and wrote %d of them", all, own)
	}
	same := first.put(t, d, 7, 2)
	if same.Digest == was.Digest {
		t.Fatal("two images with other numbers have one digest")
	}
	if same.WrittenBytes*20 > was.WrittenBytes {
		t.Errorf("an unchanged image wrote %d bytes, the first one %d", same.WrittenBytes, was.WrittenBytes)
	}
	// A page in the middle is new, and all behind it is shifted.
	pages := first["criu/pages-1.img"]
	grown := program(1, 4000)
	grown["criu/pages-1.img"] = append(append(append([]byte{}, pages[:4096*1000]...), noise(source(9), 4096)...), pages[4096*1000:]...)
	third := grown.put(t, d, 7, 3)
	if third.WrittenBytes*20 > was.WrittenBytes {
		t.Errorf("an image with one page more wrote %d bytes, the first one %d", third.WrittenBytes, was.WrittenBytes)
	}
	if own, all := chunksOf(t, d, third.Digest); own == 0 || own*20 > all {
		t.Errorf("an image with one page more has %d bytes in chunks, and wrote %d of them", all, own)
	}
	other := first.put(t, d, 8, 1)
	if own, all := chunksOf(t, d, other.Digest); own != all {
		t.Errorf("another job's image has %d bytes in chunks, and wrote only %d of them", all, own)
	}
	// Deleting one takes nothing from another.
	for _, image := range []checkpoint.Digest{was.Digest, same.Digest} {
		if err := d.Delete(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	grown.get(t, d, third.Digest)
	first.get(t, d, other.Digest)
}

func TestSpaceComesBack(t *testing.T) {
	d := newStore(t, Limits{})
	s := program(2, 2000)
	a, b := s.put(t, d, 1, 1), s.put(t, d, 1, 2)
	full, err := d.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if wrote := a.WrittenBytes + b.WrittenBytes; full.Images != 2 || full.Used < wrote || full.Used > wrote+100<<10 {
		t.Errorf("usage is %+v after %d bytes were written", full, wrote)
	}
	for _, image := range []checkpoint.Digest{a.Digest, b.Digest} {
		if err := d.Delete(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	empty, err := d.Usage(t.Context())
	if err != nil || empty.Images != 0 || empty.Used != 0 {
		t.Errorf("usage is %+v, %v after all was deleted", empty, err)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
	mustBeEmpty(t, filepath.Join(d.path, imagesName))
}

// An image that keeps a little of each of many old packs would hold all of
// them: it is written together instead.
func TestNoImageHoldsMuchMoreThanItHas(t *testing.T) {
	d := newStore(t, Limits{})
	r := source(3)
	pages := noise(r, 1200*4096)
	var last Receipt
	for number := uint32(1); number <= 25; number++ {
		now := sample{"pages-1.img": pages}.put(t, d, 1, number)
		if number > 1 {
			if err := d.Delete(t.Context(), last.Digest); err != nil {
				t.Fatal(err)
			}
		}
		last = now
		u, err := d.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if u.Used > 25*int64(len(pages))/10 {
			t.Fatalf("after %d images, one of %d bytes takes %d", number, len(pages), u.Used)
		}
		at := r.IntN(1100) * 4096
		copy(pages[at:], noise(r, 100*4096))
	}
	sample{"pages-1.img": pages}.put(t, d, 1, 26)
}

func TestListSaysWhatIsThere(t *testing.T) {
	d := newStore(t, Limits{})
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("a new store lists %v, %v", all, err)
	}
	m, directory := program(4, 10).write(t, 12, 3)
	m.Node = "näme.with.dots%2F"
	receipt, err := d.Put(t.Context(), m, directory)
	if err != nil {
		t.Fatal(err)
	}
	program(4, 10).put(t, d, 9, 1)
	again := openStore(t, d.path, Limits{})
	all, err := again.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Job != 9 {
		t.Fatalf("list is %+v, %v", all, err)
	}
	want := About{Digest: receipt.Digest, Job: 12, Epoch: 1, Number: 3, UID: 1000, Saved: time.UnixMilli(m.SavedMS), Bytes: receipt.Bytes, Node: m.Node}
	if all[1] != want {
		t.Errorf("list says %+v, not %+v", all[1], want)
	}
	deleted, err := Keep(t.Context(), again, func(a About) bool { return a.Job == 12 })
	if err != nil || len(deleted) != 1 || deleted[0].Job != 9 {
		t.Errorf("all but job 12's were to go, and %+v went, %v", deleted, err)
	}
}

func TestTheSameImageTwiceIsThereOnce(t *testing.T) {
	d := newStore(t, Limits{})
	m, directory := program(5, 100).write(t, 1, 1)
	a, err := d.Put(t.Context(), m, directory)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Put(t.Context(), m, directory)
	if err != nil || a.Digest != b.Digest || b.WrittenBytes != 0 {
		t.Fatalf("again answers %+v, %v after %+v", b, err, a)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
	// A damaged one is replaced.
	packs, err := filepath.Glob(filepath.Join(d.path, imagesName, "*", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs {
		if err := os.Truncate(pack, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Put(t.Context(), m, directory); err != nil {
		t.Fatal(err)
	}
	program(5, 100).get(t, d, a.Digest)
}

func TestAnUnsafeDirectoryIsRefused(t *testing.T) {
	above := t.TempDir()
	open := filepath.Join(above, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	refused := func(path, word string) {
		t.Helper()
		d, err := OpenDirectory(t.Context(), path, Limits{})
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", path, err)
		}
	}
	refused(open, "chmod 700 "+open)
	link := filepath.Join(above, "link")
	if err := os.Symlink(newStore(t, Limits{}).path, link); err != nil {
		t.Fatal(err)
	}
	refused(link, "link")
	if os.Geteuid() != 0 {
		t.Skip("needs root: to give a directory to somebody else")
	}
	foreign := filepath.Join(above, "foreign")
	if err := errors.Join(os.Mkdir(foreign, 0o700), os.Chown(foreign, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	refused(foreign, "no_root_squash")
}

func TestLinksInTheStoreAreNotFollowed(t *testing.T) {
	d := newStore(t, Limits{})
	s := program(6, 50)
	receipt := s.put(t, d, 1, 1)
	manifests, err := filepath.Glob(filepath.Join(d.path, imagesName, "*", manifestName))
	if err != nil || len(manifests) != 1 {
		t.Fatal(manifests, err)
	}
	elsewhere := filepath.Join(t.TempDir(), "manifest")
	if err := errors.Join(os.Rename(manifests[0], elsewhere), os.Symlink(elsewhere, manifests[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Manifest(t.Context(), receipt.Digest); err == nil {
		t.Error("a manifest was read through a link")
	}
	// A link among the parts is not followed either.
	m, directory := s.write(t, 1, 2)
	part := filepath.Join(directory, "upper.tar")
	if err := errors.Join(os.Rename(part, part+".away"), os.Symlink(part+".away", part)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), m, directory); err == nil {
		t.Error("a part was read through a link")
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
}

func TestAPartThatIsNotAsTheManifestSaysIsRefused(t *testing.T) {
	d := newStore(t, Limits{})
	m, directory := program(7, 50).write(t, 1, 1)
	m.Parts[0].Size++
	if _, err := d.Put(t.Context(), m, directory); err == nil || !strings.Contains(err.Error(), m.Parts[0].Name) {
		t.Errorf("a longer part: %v", err)
	}
	m.Parts[0].Size--
	m.Parts[0].Name = "../" + m.Parts[0].Name
	if _, err := d.Put(t.Context(), m, directory); !errors.Is(err, checkpoint.ErrManifest) {
		t.Errorf("a part outside: %v", err)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
	if all, err := d.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("there are images: %v, %v", all, err)
	}
}

func TestALimitRefusesBeforeAndMeanwhile(t *testing.T) {
	d := newStore(t, Limits{Bytes: 6 << 20})
	s := sample{"pages-1.img": noise(source(8), 4<<20)}
	s.put(t, d, 1, 1)
	m, directory := sample{"pages-1.img": noise(source(9), 4<<20)}.write(t, 2, 1)
	if _, err := d.Put(t.Context(), m, directory); !errors.Is(err, ErrFull) {
		t.Fatalf("what passes the limit: %v", err)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
	// The job's own next image fits: little of it is new.
	s.put(t, d, 1, 2)
	d.limits.Bytes = 1 << 20
	if _, err := d.Put(t.Context(), m, filepath.Join(directory, "not there")); !errors.Is(err, ErrFull) {
		t.Fatalf("a store beyond its limit: %v", err)
	}
	d.limits = Limits{KeepFree: 1 << 60}
	if _, err := d.Put(t.Context(), m, directory); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "free") {
		t.Fatalf("a full file system: %v", err)
	}
}

func TestACancelledPutLeavesNothing(t *testing.T) {
	d := newStore(t, Limits{})
	m, directory := program(10, 3000).write(t, 1, 1)
	for after := time.Duration(0); after < 20*time.Millisecond; after += 4 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := d.Put(ctx, m, directory)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
		mustBeEmpty(t, filepath.Join(d.path, makingName))
		mustBeEmpty(t, filepath.Join(d.path, imagesName))
	}
}

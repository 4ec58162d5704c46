package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// FuzzPack: whatever bytes a pack has, its index lies within it or is refused.
func FuzzPack(f *testing.F) {
	disk := newModelDisk()
	w, err := newPackWriter(disk, "a", smallestTarget)
	if err == nil {
		err = errors.Join(w.add([]byte("some bytes"), []entry{{checkpoint.Digest{1}, 10, 4}, {checkpoint.Digest{2}, 6, 6}}), w.finish())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(disk.root.names["a"].data)
	f.Add(append([]byte(packMagic), encodeIndex(nil, 0, int64(len(packMagic)))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		disk := newModelDisk()
		file, err := disk.Create("a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		p, err := openPack(disk, "a")
		if err != nil {
			var bad errPack
			if !errors.As(err, &bad) {
				t.Fatal(err)
			}
			return
		}
		stored := int64(len(packMagic))
		for _, e := range p.entries {
			stored += int64(e.stored)
		}
		if stored > int64(len(data)) {
			t.Fatalf("chunks of %d bytes in a pack of %d", stored, len(data))
		}
	})
}

// FuzzAbout: what is read of a directory's name is written as the same name.
func FuzzAbout(f *testing.F) {
	m := &checkpoint.Manifest{Version: 1, Job: 1, Epoch: 2, Number: 3, Node: "a.b/c", UID: 4, SavedMS: 5}
	name, err := imageName(m, checkpoint.Digest{1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(name)
	f.Fuzz(func(t *testing.T, name string) {
		a, is := parseAbout(name)
		if !is {
			return
		}
		m := &checkpoint.Manifest{Job: a.Job, Epoch: a.Epoch, Number: a.Number, Node: a.Node, UID: a.UID, SavedMS: a.Saved.UnixMilli(),
			Parts: []checkpoint.Part{{Size: a.Bytes}}}
		again, err := imageName(m, a.Digest)
		if err != nil && len(name) <= maxFileName {
			t.Fatal(err)
		}
		if b, is := parseAbout(again); err == nil && (!is || a != b) {
			t.Fatalf("%q is read as %+v, and written again as %+v", name, a, b)
		}
	})
}

// talk is a stream whose other end has said all that it ever will.
type talk struct {
	io.Reader
	io.Writer
}

func (talk) Close() error { return nil }

// FuzzServe: whatever is asked, only what the image has is sent.
func FuzzServe(f *testing.F) {
	disk := newModelDisk()
	d := newDirectory("/model", disk, Limits{})
	if err := d.begin(f.Context()); err != nil {
		f.Fatal(err)
	}
	receipt := sample{"a": noise(source(1), 100<<10), "zeros": make([]byte, 1000)}.put(f, d, 1, 1)
	hello := append([]byte(wireMagic), receipt.Digest[:]...)
	f.Add(appendRequest(slices.Clone(hello), []Ref{{0, 0}, {0, 0}}))
	f.Add(appendRequest(appendRequest(slices.Clone(hello), []Ref{{0, 1}}), nil))
	f.Add(appendRequest(slices.Clone(hello), []Ref{{1, 0}}))
	f.Add(hello[:20])
	f.Fuzz(func(t *testing.T, asked []byte) {
		var sent bytes.Buffer
		err := Serve(t.Context(), talk{bytes.NewReader(asked), &sent}, d, receipt.Digest)
		if len(asked) < len(hello) && err == nil {
			t.Fatal("who says nothing is served")
		}
		if !bytes.HasPrefix(asked, hello) && sent.Len() > 200 {
			t.Fatalf("%d bytes were sent to who asked for nothing", sent.Len())
		}
		if most := 200<<10 + len(asked)*(130<<10)/8; sent.Len() > most {
			t.Fatalf("%d bytes were sent for %d", sent.Len(), len(asked))
		}
	})
}

// FuzzRemote: whatever is sent, nothing is taken for the image that is not,
// and nothing is left behind.
func FuzzRemote(f *testing.F) {
	disk := newModelDisk()
	d := newDirectory("/model", disk, Limits{})
	if err := d.begin(f.Context()); err != nil {
		f.Fatal(err)
	}
	s := sample{"a": noise(source(1), 2000), "b": bytes.Repeat([]byte("text "), 300)}
	receipt := s.put(f, d, 1, 1)
	var honest bytes.Buffer
	asked := appendRequest(append([]byte(wireMagic), receipt.Digest[:]...), []Ref{{0, 0}, {1, 0}})
	if err := Serve(f.Context(), talk{bytes.NewReader(asked), &honest}, d, receipt.Digest); err != nil {
		f.Fatal(err)
	}
	f.Add(honest.Bytes())
	f.Add([]byte("E\x05\x00\x00\x00sorry"))
	f.Add([]byte("N\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := NewRemote(func(context.Context) (io.ReadWriteCloser, error) { return talk{bytes.NewReader(said), io.Discard}, nil })
		r.pause, r.attempts = time.Nanosecond, 2
		above := t.TempDir()
		err := r.Get(t.Context(), receipt.Digest, filepath.Join(above, "restored"))
		if err != nil {
			mustBeEmpty(t, above)
			return
		}
		for name, want := range s {
			got, err := os.ReadFile(filepath.Join(above, "restored", name))
			if err != nil || sha256.Sum256(got) != sha256.Sum256(want) {
				t.Fatalf("part %s was got as %d other bytes, %v", name, len(got), err)
			}
		}
	})
}

// FuzzKeys: whatever a file of keys has, it is refused, or its last key can write.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("# created\nAGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n"))
	f.Add([]byte("AGE-SECRET-KEY-PQ-1\n"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, write, err := parseKeys(bytes.NewReader(data))
		if (err == nil) != (len(all) > 0 && write != nil) {
			t.Errorf("%d keys, %v: %v", len(all), write, err)
		}
	})
}

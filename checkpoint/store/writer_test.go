package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// addPiped hands a part to a writer through a pipe.
func addPiped(t *testing.T, w *Writer, name string, data []byte) error {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	go func() {
		_, _ = to.Write(data) // a writer that fails does not read all
		to.Close()
	}()
	return w.Add(t.Context(), name, from)
}

// putPiped puts a sample whose pages come through pipes.
func (s sample) putPiped(t *testing.T, d *Directory, job, number uint32) (Receipt, error) {
	t.Helper()
	rest := sample{}
	w, err := d.Begin(t.Context(), &checkpoint.Manifest{Job: job, UID: 1000}, 8<<20)
	if err != nil {
		return Receipt{}, err
	}
	defer w.Abandon()
	for name, data := range s {
		if !strings.HasPrefix(name, "pages-") {
			rest[name] = data
		} else if err := addPiped(t, w, name, data); err != nil {
			return Receipt{}, err
		}
	}
	m, directory := rest.write(t, job, number)
	return w.Finish(t.Context(), m, directory)
}

// TestWriter: parts that come through pipes are got as those that were put, an image of
// the same bytes shares all of them, and both ways build on each other.
func TestWriter(t *testing.T) {
	d := newStore(t, Limits{})
	random := source(9)
	s := sample{
		"core-1.img": noise(random, 2000), "pages-1.img": memory(random, 1500), "pages-2.img": {},
		"pages-3.img": noise(random, 3<<20+5), "upper.tar": memory(random, 50),
	}
	first, err := s.putPiped(t, d, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.get(t, d, first.Digest)
	again, err := s.putPiped(t, d, 1, 2)
	if err != nil || again.WrittenBytes > first.WrittenBytes/100 || again.Bytes != first.Bytes {
		t.Errorf("the same again wrote %d bytes of %d: %v", again.WrittenBytes, first.WrittenBytes, err)
	}
	if third := s.put(t, d, 1, 3); third.WrittenBytes > first.WrittenBytes/100 {
		t.Errorf("from files, the same wrote %d bytes of %d", third.WrittenBytes, first.WrittenBytes)
	}
}

// TestWriterFails: after a store is full, the context ends, or the writer is abandoned,
// nothing is left, and no error of the pipe hides the cause.
func TestWriterFails(t *testing.T) {
	for name, row := range map[string]struct {
		limits Limits
		fail   func(t *testing.T, w *Writer) error
		want   error
	}{
		"full": {Limits{Bytes: 1 << 20}, func(t *testing.T, w *Writer) error {
			err := addPiped(t, w, "pages-1.img", noise(source(1), 9<<20))
			if err == nil { // it was read, and not written yet
				_, err = w.Finish(t.Context(), &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: 1, Number: 1, Node: "n1"}, t.TempDir())
			}
			return err
		}, ErrFull},
		"abandoned": {Limits{}, func(t *testing.T, w *Writer) error {
			if err := addPiped(t, w, "pages-1.img", noise(source(1), 2<<20)); err != nil {
				t.Error(err)
			}
			w.Abandon()
			_, err := w.Finish(t.Context(), &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: 1, Number: 1, Node: "n1"}, t.TempDir())
			return err
		}, errAbandoned},
		"late": {Limits{}, func(t *testing.T, w *Writer) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			late := errors.New("late")
			go func() {
				_, _ = to.Write(noise(source(1), 1<<20))
				cancel(late)
				to.Close()
			}()
			if err := w.Add(ctx, "pages-1.img", from); err != nil {
				return err
			}
			_, err = w.Finish(ctx, &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: 1, Number: 1, Node: "n1"}, t.TempDir())
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newStore(t, row.limits)
			w, err := d.Begin(t.Context(), &checkpoint.Manifest{Job: 1}, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if err := row.fail(t, w); err == nil || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("it ended with %v", err)
			}
			w.Abandon()
			for _, place := range []string{imagesName, makingName} {
				if left, err := filepath.Glob(filepath.Join(d.path, place, "*")); err != nil || len(left) > 0 {
					t.Errorf("left are %v, %v", left, err)
				}
			}
		})
	}
}

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Writer makes an image whose parts come one after the other, some of them before all
// others exist: a dump is packed while it is made. Nothing of it is an image before
// Finish has returned nil. It is used by one goroutine at a time.
type Writer struct {
	d      *Directory
	making string
	base   *base
	room   *room
	pack   *packing
	stop   func() // touching
	added  []*checkpoint.Part
	over   sync.Once
	cancel context.CancelCauseFunc
}

// errAbandoned ends what is under way when a Writer is abandoned.
var errAbandoned = errors.New("the image is no longer wanted")

// Begin implements Store.
func (d *Directory) Begin(ctx context.Context, manifest *checkpoint.Manifest, bytes int64) (*Writer, error) {
	return within(ctx, d, "put an image into", func(ctx context.Context) (*Writer, error) {
		return d.newWriter(context.WithoutCancel(ctx), manifest, bytes)
	})
}

// newWriter begins an image of about so many bytes. ctx bounds all of its life.
func (d *Directory) newWriter(ctx context.Context, m *checkpoint.Manifest, bytes int64) (_ *Writer, err error) {
	if _, err := d.tidy(ctx); err != nil {
		return nil, err
	}
	w := &Writer{d: d, making: path.Join(makingName, d.writer.next())}
	defer func() {
		if err != nil {
			release(path.Base(w.making))
		}
	}()
	if w.room, err = d.enter(ctx); err != nil {
		return nil, err
	}
	if err := d.disk.MakeDirectory(w.making); err != nil {
		return nil, err
	}
	w.stop = d.touch(w.making)
	ctx, w.cancel = context.WithCancelCause(ctx)
	if w.base, err = d.buildOn(ctx, m, w.making); err == nil {
		w.pack = &packing{d: d, making: w.making, base: w.base, room: w.room, cut: newCutter(targetFor(bytes, w.base.target))}
		err = w.pack.start(ctx)
	}
	if err != nil {
		w.stop()
		w.cancel(errAbandoned)
		return nil, errors.Join(err, w.empty())
	}
	return w, nil
}

// Add packs a part that comes through a pipe, and returns when all of it has come. The
// context's end, or a store that is full, ends that early.
func (w *Writer) Add(ctx context.Context, name string, pipe *os.File) error {
	part := &checkpoint.Part{Name: name}
	defer context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })()
	_, err := within(ctx, w.d, "put an image into", func(context.Context) (struct{}, error) {
		return struct{}{}, w.pack.add(origin{part: part, file: pipe, pipe: true})
	})
	if err != nil {
		w.cancel(err)
		return err
	}
	w.added = append(w.added, part)
	return nil
}

// Finish takes the parts that the manifest names, which lie in a directory, beside those
// that were added, and makes the image durable: see Store.Take.
func (w *Writer) Finish(ctx context.Context, manifest *checkpoint.Manifest, directory string) (Receipt, error) {
	m := *manifest
	m.Parts = withoutChunks(manifest.Parts)
	receipt, err := within(ctx, w.d, "put an image into", func(ctx context.Context) (Receipt, error) {
		defer context.AfterFunc(ctx, func() { w.cancel(context.Cause(ctx)) })()
		return w.finish(ctx, &m, directory, true)
	})
	if err != nil {
		w.cancel(err)
	}
	return receipt, err
}

// Abandon removes what was made, unless it is an image by now. It may be called again. It
// does not wait for a directory that does not answer.
func (w *Writer) Abandon() {
	if w == nil {
		return
	}
	w.cancel(errAbandoned)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.over.Do(func() { _ = w.undo(errors.Join(errAbandoned, w.pack.end())) }) // what is left, Tidy finds
	}()
	select {
	case <-done:
	case <-time.After(w.d.patience):
	}
}

func (w *Writer) finish(ctx context.Context, m *checkpoint.Manifest, directory string, take bool) (receipt Receipt, err error) {
	err = errAbandoned // unless this is the first call
	w.over.Do(func() {
		receipt, err = w.publish(ctx, m, directory, take)
		err = w.undo(err)
	})
	return receipt, err
}

func (w *Writer) publish(ctx context.Context, m *checkpoint.Manifest, directory string, take bool) (Receipt, error) {
	err := w.pack.addAll(m.Parts, directory, take)
	if ended := w.pack.end(); ended != nil {
		err = ended // the cause of the other
	}
	if err != nil {
		return Receipt{}, err
	}
	for _, part := range w.added {
		m.Parts = append(m.Parts, *part)
	}
	slices.SortFunc(m.Parts, func(a, b checkpoint.Part) int { return cmp.Compare(a.Name, b.Name) })
	if err := w.base.release(w.d); err != nil {
		return Receipt{}, err
	}
	return w.d.publish(ctx, m, w.making, w.room)
}

// undo ends the writer; if there is an error, nothing stays.
func (w *Writer) undo(err error) error {
	defer release(path.Base(w.making))
	w.stop()
	defer w.cancel(errAbandoned)
	if err == nil {
		return nil
	}
	if left := w.empty(); left != nil {
		err = fmt.Errorf("%w; what was written stays until the store is tidied: %w", err, left)
	}
	return err
}

func (w *Writer) empty() error {
	if err := w.d.empty(w.making); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

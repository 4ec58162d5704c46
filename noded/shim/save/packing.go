package save

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
)

// lookEvery is how often a dump that is packed looks whether somebody still wants it.
const lookEvery = 50 * time.Millisecond

// takePages takes what a job has in memory from a dump; nil = CRIU writes files.
type takePages func(part string, pipe *os.File) error

// packWhileDumped begins to pack the image of a job that stays frozen, and answers who
// takes what the job has in memory: it goes from CRIU into the store, and into no file.
// A job that is to run again as soon as it is dumped does not wait for the store: CRIU
// writes files, which are packed while it runs. This is the only place that decides it.
//
// CRIU, which holds the job's processes, must never fail because of a store. If packing
// fails, or if the save is taken back, the rest of the memory is thrown away at once, CRIU
// comes to its end, and pack tells the error.
func (w *work) packWhileDumped(ctx context.Context) (take takePages, stop func(), err error) {
	w.abandonPacking() // of a dump that was tried before
	if !w.wantsFrozen() {
		return nil, func() {}, nil
	}
	usage, err := w.Group.Usage()
	if err != nil {
		return nil, nil, fmt.Errorf("see how much memory the job uses: %w", err)
	}
	about := &checkpoint.Manifest{Job: w.Job.Order.Alloc.Job, UID: w.Job.User.UID}
	if w.packing, err = w.Store.Begin(ctx, w.store(), about, usage.CurrentMemoryBytes); err != nil {
		w.packing = nil
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go w.lookWhetherWanted(ctx, cancel)
	take = func(part string, pipe *os.File) error {
		if w.packFailed == nil {
			w.packFailed = w.packing.Add(ctx, part, pipe)
		}
		if w.packFailed == nil {
			return nil
		}
		_, err := io.Copy(io.Discard, pipe)
		return err
	}
	return take, func() { cancel(nil) }, nil
}

// lookWhetherWanted ends the packing when the save is taken back.
func (w *work) lookWhetherWanted(ctx context.Context, cancel context.CancelCauseFunc) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		w.Lock.Lock()
		unwanted := w.decided.Dumped() != nil
		w.Lock.Unlock()
		if unwanted {
			cancel(supervise.ErrAborted)
			return
		}
	}
}

// finishPacking makes the image durable.
func (w *work) finishPacking(ctx context.Context) (Packed, error) {
	dir := w.Job.Dir.Path(Dir)
	switch {
	case w.packing == nil:
		return w.Store.Put(ctx, w.store(), w.manifest, dir)
	case w.packFailed != nil:
		return Packed{}, w.packFailed
	}
	return w.packing.Finish(ctx, w.manifest, dir)
}

// store is the name of the one that the order says.
func (w *work) store() string {
	w.Lock.Lock()
	defer w.Lock.Unlock()
	return w.decided.Order.Store
}

// abandonPacking ends what was begun and is not an image.
func (w *work) abandonPacking() {
	if w.packing != nil {
		w.packing.Abandon()
		w.packing, w.packFailed = nil, nil
	}
}

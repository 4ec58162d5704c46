package save

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/shim/gpumem"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// dump writes the image's files. Whatever happens meanwhile, the job is frozen
// afterwards if it was frozen before.
func (w *work) dump(ctx context.Context) error {
	if !w.MayRun() {
		return notNowError("the lease of the job has ended: see whether this node reaches the controllers")
	}
	manifest, err := w.writeImage(ctx)
	for try := 1; errors.Is(err, checkpoint.ErrBetween) && try < betweenTries; try++ {
		w.Job.Log.Info("the job was frozen in the middle of something that cannot be saved, and is frozen again", "image", w.number, "error", err)
		if err = w.refreezeAfter(ctx, betweenPause<<(try-1)); err == nil {
			manifest, err = w.writeImage(ctx)
		}
	}
	w.Lock.Lock()
	aborted := w.decided.Dumped()
	w.Lock.Unlock()
	if err != nil {
		w.Released()
		// A CRIU that is killed lets go of a job that it held.
		return errors.Join(err, w.Refreeze())
	}
	if aborted != nil {
		return aborted
	}
	job := w.Job
	manifest.Job, manifest.Epoch, manifest.Number = job.Order.Alloc.Job, job.Order.Alloc.Epoch, w.number
	manifest.Node, manifest.UID, manifest.SavedMS = job.Settings.Node, job.User.UID, time.Now().UnixMilli()
	manifest.Machine.GPUs = gpumem.ManifestGPUs(w.facts)
	manifest.TmpBytes = job.DiskBytes()
	w.manifest = manifest
	return nil
}

// How often a job is frozen again that was frozen in the middle of something, and how
// long it runs before the first time: before each other time, twice as long.
const (
	betweenTries = 5
	betweenPause = 5 * time.Millisecond
)

// refreezeAfter lets the job run for a while.
func (w *work) refreezeAfter(ctx context.Context, while time.Duration) error {
	if err := w.thaw(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(while):
	}
	return w.freeze(ctx)
}

// writeImage writes the image's files into a new directory.
func (w *work) writeImage(ctx context.Context) (*checkpoint.Manifest, error) {
	dir := w.Job.Dir.Path(Dir)
	if err := remove.Tree(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the image: %w", err)
	}
	if err := w.GPUs.WriteParked(dir); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, w.dumpPatience(), fmt.Errorf("%w: CRIU does not finish", ErrLate))
	defer cancel()
	pages, stop, err := w.packWhileDumped(limited)
	if err != nil {
		return nil, err
	}
	defer stop()
	manifest, err := w.Dumper.Dump(limited, dir, pages)
	if err != nil && limited.Err() != nil {
		err = errors.Join(context.Cause(limited), err)
	}
	return manifest, err
}

// How long a dump may take: longer than any that was seen, because aborting one may end
// the job, but not so long that a CRIU that hangs keeps the job frozen.
const (
	leastDumpPatience = time.Minute
	dumpBytesASecond  = 32 << 20
	// packBytesASecond: a slow store counts, too, if the job stands and waits for it.
	packBytesASecond = 4 << 20
)

func (w *work) dumpPatience() time.Duration {
	usage, err := w.Group.Usage()
	if err != nil {
		return leastDumpPatience
	}
	rate := uint64(dumpBytesASecond)
	if w.wantsFrozen() {
		rate = packBytesASecond
	}
	return leastDumpPatience + time.Duration(usage.CurrentMemoryBytes/rate)*time.Second
}

// notNowError says what prevents a save now, and may pass.
type notNowError string

func (e notNowError) Error() string { return string(e) }

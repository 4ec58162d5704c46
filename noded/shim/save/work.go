package save

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/relay"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Dir is where the files of an image are while it is made, in the allocation's
// directory.
const Dir = "save"

// step takes one step.
func (w *work) step(ctx context.Context, step supervise.Step) (err error) {
	w.Lock.Lock()
	w.decided.Step = step
	w.Lock.Unlock()
	switch step {
	case supervise.StepMark:
		if err = w.mark(); err == nil {
			w.Dumper.Prepare(ctx)
		}
	case supervise.StepDisconnect:
		err = w.disconnect(ctx)
	case supervise.StepPark:
		err = w.park(ctx)
	case supervise.StepFreeze:
		err = w.freeze(ctx)
	case supervise.StepDump:
		err = w.dump(ctx)
	case supervise.StepResume:
		err = w.resume()
	case supervise.StepPack:
		err = w.pack(ctx)
	case supervise.StepSettle:
		err = w.settle()
	case supervise.StepClear:
		w.clear()
	}
	if err != nil {
		w.Job.Log.Warn("a step of saving the job failed, and the job continues: see the error, and criu/dump.log in the allocation's directory", "image", w.number, "step", step.String(), "error", err)
	}
	return err
}

// wantsFrozen says whether the job is to stay frozen with its image.
func (w *work) wantsFrozen() bool {
	w.Lock.Lock()
	defer w.Lock.Unlock()
	return w.decided.WantsFrozen()
}

// mark refuses a save for which there is no room, before the job notices anything, and
// leaves the mark.
func (w *work) mark() error {
	if err := w.checkRoom(0); err != nil {
		return err
	}
	return w.Job.Dir.Mark(bundle.SaveMark{Number: w.number, BegunMS: time.Now().UnixMilli()})
}

// checkRoom compares the room on the node's disk with what the image takes: about what
// the job holds in memory and has on its own disk, and some bytes more.
func (w *work) checkRoom(more uint64) error {
	usage, err := w.Group.Usage()
	if err != nil {
		return fmt.Errorf("see how much memory the job uses: %w", err)
	}
	written, err := w.Job.DiskUsed()
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(string(w.Job.Dir), &fs); err != nil {
		return fmt.Errorf("see how much room there is: %w", err)
	}
	if room := fs.Bavail * uint64(fs.Bsize); room < usage.CurrentMemoryBytes+written+more {
		return fmt.Errorf("%w: %s has %s, and the job uses %s of memory and has written %s to its own disk: remove something there, or give gnoded another state_dir",
			unix.ENOSPC, w.Job.Settings.StateDir, spec.FormatSize(room), spec.FormatSize(usage.CurrentMemoryBytes+more), spec.FormatSize(written))
	}
	return nil
}

// disconnect closes what connects the job with its supervisor. Open step streams prevent
// that; once they are closed, that says nothing about the job.
func (w *work) disconnect(ctx context.Context) error {
	err := w.Relay.Disconnect(ctx)
	var streams *relay.StreamsError
	if errors.As(err, &streams) {
		return passingError{err}
	}
	return err
}

// passingError does not say whether the job can be saved.
type passingError struct{ error }

func (e passingError) Is(target error) bool { return target == supervise.ErrPassing }
func (e passingError) Unwrap() error        { return e.error }

// park brings what the job has on its GPUs into the host's memory. Of a job that is
// parked it is there.
func (w *work) park(ctx context.Context) (err error) {
	if w.parked() {
		w.facts, err = w.GPUs.Ours(ctx)
		return err
	}
	w.facts, err = w.GPUs.Park(ctx, w.checkRoom)
	return err
}

func (w *work) parked() bool {
	w.Lock.Lock()
	defer w.Lock.Unlock()
	return w.decided.Parked
}

// freeze freezes the job where it can be dumped.
func (w *work) freeze(ctx context.Context) error {
	w.frozen = time.Now()
	if err := w.freezeWhole(ctx); err != nil {
		return err
	}
	w.made.StopMS = sinceMS(w.frozen)
	return nil
}

func (m *Maker) thaw() error {
	if err := m.Thaw(); err != nil {
		return fmt.Errorf("thaw the job: %w", err)
	}
	return nil
}

// resume lets the job run while its image is packed.
func (w *work) resume() error {
	if !w.StaysParked() {
		w.Lock.Lock()
		w.decided.RunsOn()
		w.Lock.Unlock()
	}
	err := w.Resume()
	w.made.FrozenMS = sinceMS(w.frozen)
	return err
}

// pack makes the image durable.
func (w *work) pack(ctx context.Context) error {
	packed, err := w.finishPacking(ctx)
	if err != nil {
		return err
	}
	w.made.WrittenBytes, w.made.Locks = packed.WrittenBytes, w.manifest.Locks
	w.made.Image = &pb.Image{
		Alloc: w.Job.Order.Alloc, Number: w.number, Digest: packed.Digest[:], Store: w.store(),
		Node: w.Job.Settings.Node, Bytes: packed.Bytes,
	}
	return nil
}

// settle leaves the job frozen with its image if that is still wanted, and otherwise
// lets it run.
func (w *work) settle() error {
	w.Lock.Lock()
	frozen := w.decided.Settled(w.made.Image != nil)
	w.Lock.Unlock()
	if frozen {
		return nil
	}
	if w.frozen.IsZero() || w.made.FrozenMS > 0 {
		return w.Resume()
	}
	return w.resume()
}

// clear removes the files of a save, the mark last. The next save and the allocation's
// end remove what stays; the image does not need it.
func (w *work) clear() {
	err := remove.Tree(w.Job.Dir.Path(Dir))
	if err == nil {
		err = w.Job.Dir.Unmark()
	}
	if err != nil {
		w.Job.Log.Warn("the files of a save are not removed from the disk: that is tried again later", "error", err)
	}
}

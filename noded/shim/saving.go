package shim

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/save"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// endPatience is how long the end of an allocation waits for a save that was told to
// end.
const endPatience = 15 * time.Second

// saving is the save under way. Package supervise decides about it.
type saving struct {
	*supervise.Save // guarded by alloc.mu

	abort context.CancelCauseFunc
}

// newMaker makes what makes the allocation's images.
func (p *alloc) newMaker() *save.Maker {
	return &save.Maker{Config: save.Config{
		Job: p.job, Group: p.group, Relay: p.relay, GPUs: p.gpus, Store: save.NodeStores{Stores: p.stores},
		Lock: &p.mu, Freeze: p.freezeForSave, Thaw: p.thawAfterSave, Refreeze: p.refreeze, MayRun: p.mayRun,
		Released: p.noteReleased, StaysParked: p.staysParked,
	}}
}

// takeSave takes an order to save the allocation, to abort that, or to resume an
// allocation that is frozen with its image. It may come twice.
func (p *alloc) takeSave(order *pb.SaveAlloc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carryOut(p.core.Save(order))
}

// carryOut does what was decided about saves, and ends an attempt to park. The caller holds p.mu.
func (p *alloc) carryOut(do supervise.Do) {
	if do.Abort != nil {
		p.saving.abort(do.Abort)
	}
	if do.StopPark != nil {
		p.parking.stop(do.StopPark)
	}
	if do.Resume {
		p.resumeAfterSave()
	}
	if do.Begin != nil {
		p.beginSave(do.Begin)
	}
	if do.Tell {
		p.notify()
	}
}

// resumeAfterSave resumes a job that was frozen with its image. The caller holds p.mu.
func (p *alloc) resumeAfterSave() {
	p.afterEarlier(func() {
		p.log.Info("the job resumes here after it was saved")
		if err := p.maker.Resume(); err != nil {
			p.log.Error("a job that was saved does not resume as it should: see its processes (ps), and cancel it if they are frozen", "error", err)
		}
	})
}

// afterEarlier does something about saves when what was begun earlier is over.
// The caller holds p.mu.
func (p *alloc) afterEarlier(do func()) {
	earlier, over := p.savesTail, make(chan struct{})
	p.savesTail = over
	go func() {
		defer close(over)
		if earlier != nil {
			<-earlier
		}
		do()
	}()
}

// beginSave starts to make an image. The caller holds p.mu.
func (p *alloc) beginSave(decided *supervise.Save) {
	number := decided.Order.Number
	timeout := cmp.Or(time.Duration(decided.Order.TimeoutS)*time.Second, p.settings.Checkpoint.Timeout())
	ctx, cancel := context.WithCancelCause(context.Background())
	p.saving = &saving{Save: decided, abort: cancel}
	p.afterEarlier(func() {
		defer cancel(nil)
		ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w: it had %v", save.ErrLate, timeout))
		defer stop()
		p.log.Info("the job is being saved", "image", number)
		var made save.Made
		failure := p.maySave()
		if failure == nil {
			made, failure = p.maker.Make(ctx, decided)
		}
		p.saveOver(decided, made, failure)
	})
}

// maySave refuses what cannot be saved whatever is tried.
func (p *alloc) maySave() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.MaySave()
}

// staysParked says whether the job's devices are the owner's, and nobody asked for them.
func (p *alloc) staysParked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Park.Wanted && p.core.Park.Step == supervise.Parked
}

// noteReleased notes that CRIU ended in the middle of a dump.
func (p *alloc) noteReleased() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.criuReleased = time.Now()
}

// saveOver notes how a save ended, and begins the one that waits.
func (p *alloc) saveOver(decided *supervise.Save, made save.Made, failure error) {
	result := p.savedMessage(decided, made, failure)
	if err := p.dir.WriteSaved(result); err != nil {
		p.log.Warn("the outcome of a save is not on disk: it is told only while this supervisor lives", "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// It is decided under the lock that orders take: if somebody asked meanwhile that
	// the job resumes, that is heard.
	do := p.core.Saved(result)
	if result.Image == nil {
		p.log.Warn("the job was not saved and continues: see the error for what would help", "image", result.Number, "error", failure)
	} else {
		p.log.Info("the job was saved", "image", result.Number, "frozen", result.Frozen, "stop_ms", result.StopMs,
			"frozen_ms", result.StandingMs, "pack_ms", result.PackMs, "bytes", result.Image.Bytes, "written_bytes", result.WrittenBytes)
	}
	p.carryOut(do)
}

// savedMessage says how a save ended.
func (p *alloc) savedMessage(decided *supervise.Save, made save.Made, failure error) *pb.AllocSaved {
	p.mu.Lock()
	result := p.core.Outcome(decided, made.Image, failure)
	p.mu.Unlock()
	result.Error = bundle.Clip(result.Error)
	result.StopMs, result.StandingMs, result.PackMs = made.StopMS, made.FrozenMS, made.PackMS
	result.WrittenBytes, result.Locks = made.WrittenBytes, made.Locks
	return result
}

// stopSaving ends the save under way because the job ends, and waits until it is over.
// Nothing is saved after that.
func (p *alloc) stopSaving() {
	p.mu.Lock()
	p.carryOut(p.core.StopSaves())
	tail := p.savesTail
	p.mu.Unlock()
	if tail == nil {
		return
	}
	select {
	case <-tail:
	case <-p.parking.late: // the node's owner waits for no save
	case <-time.After(endPatience):
		p.log.Error("a save of the job does not end: the job is ended without it; see what criu waits for (ps)")
	}
}

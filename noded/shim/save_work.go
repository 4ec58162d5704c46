package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// saveDir is where the files of an image are while it is made, in the part's
// directory.
const saveDir = "save"

// saveStep takes one step of a save.
func (p *part) saveStep(ctx context.Context, s *save, step saveStep) error {
	p.mu.Lock()
	s.step = step
	p.mu.Unlock()
	var err error
	switch step {
	case saveMark:
		if err = p.markSave(s); err == nil {
			p.saver.Prepare(ctx)
		}
	case saveHangUp:
		err = p.hangUp(ctx)
	case savePark:
		err = p.park(ctx, s)
	case saveStop:
		err = p.stopForSave(ctx, s)
	case saveDump:
		err = p.dump(ctx, s)
	case saveGoOn:
		err = p.goOn(s)
	case savePack:
		err = p.pack(ctx, s)
	case saveSettle:
		err = p.settle(s)
	case saveClear:
		p.clearSave()
	}
	if err != nil {
		p.log.Warn("a step of saving the job failed, and it runs on: see the error, and criu/dump.log in the part's directory", "image", s.order.Number, "step", step.String(), "error", err)
	}
	return err
}

// markSave refuses a save for which there is no room, before the job notices,
// and leaves the mark.
func (p *part) markSave(s *save) error {
	if err := p.roomToSave(0); err != nil {
		return err
	}
	return p.dir.mark(s.mark())
}

// roomToSave compares what the job holds in memory, which is about what the
// image takes, and some bytes more with the disk.
func (p *part) roomToSave(more uint64) error {
	usage, err := p.group.Usage()
	if err != nil {
		return fmt.Errorf("see how much memory the job uses: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(string(p.dir), &fs); err != nil {
		return fmt.Errorf("see how much room there is: %w", err)
	}
	if room := fs.Bavail * uint64(fs.Bsize); room < usage.CurrentMemoryBytes+more {
		return fmt.Errorf("%w: %s has %s, and the job uses %s of memory: remove something there, or give gnoded another state_dir",
			unix.ENOSPC, p.settings.StateDir, spec.FormatSize(room), spec.FormatSize(usage.CurrentMemoryBytes+more))
	}
	return nil
}

// stopForSave has every process stand.
func (p *part) stopForSave(ctx context.Context, s *save) error {
	s.stopped = time.Now()
	if err := p.holdWhole(ctx); err != nil {
		return err
	}
	s.stopMS = uint32(time.Since(s.stopped).Milliseconds())
	return nil
}

// dump has the image's files written. Whatever becomes of that, the job stands
// afterwards, or did not before.
func (p *part) dump(ctx context.Context, s *save) error {
	if !p.mayRun() {
		return &notNowError{"the lease of the job has ended: see whether this node reaches the controllers"}
	}
	manifest, err := p.writeImage(ctx)
	for try := 1; errors.Is(err, checkpoint.ErrBetween) && try < betweenTries; try++ {
		p.log.Info("the job was stopped in the middle of something that cannot be saved, and is stopped again", "image", s.order.Number, "error", err)
		if err = p.stopAnew(ctx, s, betweenPause<<(try-1)); err == nil {
			manifest, err = p.writeImage(ctx)
		}
	}
	p.mu.Lock()
	taken := s.taken
	if err != nil {
		p.saves.letGo = time.Now()
	}
	p.mu.Unlock()
	if err != nil {
		// A criu that was killed lets go of a job that it held.
		return errors.Join(err, p.holdAgain())
	}
	if taken {
		return errTakenBack
	}
	manifest.Job, manifest.Epoch, manifest.Number = p.order.Part.Job, p.order.Part.Epoch, s.order.Number
	manifest.Node, manifest.UID, manifest.SavedMS = p.settings.Node, p.user.UID, time.Now().UnixMilli()
	manifest.Machine.GPUs = manifestGPUs(s.facts)
	s.manifest = manifest
	return nil
}

// How often a job is stopped anew that was stopped in the middle of something, and
// for how long it runs before, at first: each time twice as long.
const (
	betweenTries = 5
	betweenPause = 5 * time.Millisecond
)

// stopAnew lets the job run for a while.
func (p *part) stopAnew(ctx context.Context, s *save, while time.Duration) error {
	if err := p.letGo(); err != nil {
		return fmt.Errorf("let the job run on: %w", err)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(while):
	}
	return p.stopForSave(ctx, s)
}

// writeImage has the image's files written into a directory made anew.
func (p *part) writeImage(ctx context.Context) (*checkpoint.Manifest, error) {
	dir := p.dir.path(saveDir)
	if err := removeTree(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for the image: %w", err)
	}
	if p.gpus != nil {
		if err := p.gpus.writeParked(dir); err != nil {
			return nil, err
		}
	}
	limited, cancel := context.WithTimeoutCause(ctx, p.dumpPatience(), fmt.Errorf("%w: criu does not come to an end", errSaveLate))
	defer cancel()
	manifest, err := p.saver.Save(limited, dir)
	if err != nil && limited.Err() != nil {
		err = errors.Join(context.Cause(limited), err)
	}
	return manifest, err
}

// What a dump may take: longer than any that was seen, since to break one off
// may end the job, and not so long that a criu that hangs keeps it standing.
const (
	leastDumpPatience = time.Minute
	dumpBytesASecond  = 32 << 20
)

func (p *part) dumpPatience() time.Duration {
	usage, err := p.group.Usage()
	if err != nil {
		return leastDumpPatience
	}
	return leastDumpPatience + time.Duration(usage.CurrentMemoryBytes/dumpBytesASecond)*time.Second
}

// goOn lets the job run on while its image is packed.
func (p *part) goOn(s *save) error {
	p.mu.Lock()
	s.ranOn = true
	p.mu.Unlock()
	err := p.runOn(s)
	s.standMS = uint32(time.Since(s.stopped).Milliseconds())
	return err
}

// pack makes the image durable.
func (p *part) pack(ctx context.Context, s *save) error {
	p.mu.Lock()
	name := s.order.Store
	p.mu.Unlock()
	receipt, err := p.images.Put(ctx, name, s.manifest, p.dir.path(saveDir))
	if err != nil {
		return err
	}
	s.packed, s.store = receipt, name
	return nil
}

// settle has the job stand with its image if that is what is wanted, and run on
// otherwise.
func (p *part) settle(s *save) error {
	if s.packed != nil && p.wantsToStand(s) {
		return nil
	}
	if s.stopped.IsZero() || s.standMS > 0 {
		return p.runOn(s)
	}
	return p.goOn(s)
}

// runOn undoes, in the other order, what was done to the job; what was not done
// it leaves. It may be called again.
func (p *part) runOn(s *save) error {
	// The job's door is made while the job stands: it could put something else
	// in its place.
	err := p.answerAgain()
	if letErr := p.letGo(); letErr != nil {
		err = errors.Join(err, fmt.Errorf("let the job run on: %w", letErr))
	}
	return errors.Join(err, p.unpark())
}

// clearSave removes what a save needed, the mark last. What stays is tried
// again by the next save, and at the part's end: the image is none the worse.
func (p *part) clearSave() {
	err := removeTree(p.dir.path(saveDir))
	if err == nil {
		err = p.dir.unmark()
	}
	if err != nil {
		p.log.Warn("what a save needed on the disk is not removed: that is tried again later", "error", err)
	}
}

package shim

import (
	"context"
	"errors"
	"time"
)

// A job runs if neither its lease nor a save has it frozen. Each of them comes and
// goes independently, so each change of one works out from both what to tell the
// kernel.

// holdPatience bounds one attempt to freeze a job in order to save it: a process that
// the kernel does not freeze cannot be saved.
const holdPatience = 5 * time.Second

// freezeForSave freezes the job and cuts its way out, until thawAfterSave. If it fails, the
// job is as it was, or thawAfterSave makes it so.
func (p *alloc) freezeForSave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, holdPatience)
	defer cancel()
	p.freezer.Lock()
	defer p.freezer.Unlock()
	if err := p.group.Freeze(ctx); err != nil {
		return errors.Join(err, p.applyFreezer())
	}
	p.setHeld(true)
	return errors.Join(p.gang.hold(), p.out.Hold())
}

// thawAfterSave ends freezeForSave: the job runs, unless its lease has it frozen. It may
// be called without freezeForSave.
func (p *alloc) thawAfterSave() error {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	p.setHeld(false)
	return errors.Join(p.out.Release(), p.gang.release(), p.applyFreezer())
}

// refreeze makes the kernel freeze or thaw the job as it should be already: whoever
// looked into the job's processes may have let them run.
func (p *alloc) refreeze() error {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	return p.applyFreezer()
}

// applyFreezer freezes or thaws the job as its lease and the save want it. If a thaw
// fails, keepLease tries again. The caller holds p.freezer.
func (p *alloc) applyFreezer() error {
	ctx, cancel := context.WithTimeout(context.Background(), killAttempt)
	defer cancel()
	p.mu.Lock()
	runs := p.core.Runs()
	p.mu.Unlock()
	if !runs {
		return p.group.Freeze(ctx)
	}
	err := p.group.Thaw(ctx)
	if err != nil {
		p.mu.Lock()
		p.core.Froze()
		p.mu.Unlock()
		p.poke()
	}
	return err
}

func (p *alloc) setHeld(held bool) {
	p.mu.Lock()
	p.core.Held = held
	p.mu.Unlock()
	p.poke() // the time limit stops while the job is frozen
}

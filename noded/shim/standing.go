package shim

import (
	"context"
	"errors"
	"time"
)

// A job runs when neither its lease nor a save holds it. Each of them comes and
// goes by itself, so what the kernel is told is always worked out from both,
// one at a time.

// holdPatience bounds one attempt to stop a job in order to save it: a
// process that the kernel holds is one that cannot be saved.
const holdPatience = 5 * time.Second

// hold stops the job until letGo. When it fails the job is as it was.
func (p *part) hold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, holdPatience)
	defer cancel()
	p.freezer.Lock()
	defer p.freezer.Unlock()
	if err := p.group.Freeze(ctx); err != nil {
		return errors.Join(err, p.bringAbout())
	}
	p.setHeld(true)
	return nil
}

// letGo ends hold: the job runs on, unless its lease has it stand. Without hold
// it makes sure of that.
func (p *part) letGo() error {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	p.setHeld(false)
	return p.bringAbout()
}

// holdAgain has the kernel do what it should do already: whoever looked into
// the job's processes may have let them run.
func (p *part) holdAgain() error {
	p.freezer.Lock()
	defer p.freezer.Unlock()
	return p.bringAbout()
}

// bringAbout has the job stand or run as its lease and the save want it. What
// could not be thawed is tried again by whoever keeps the lease. The caller
// holds p.freezer.
func (p *part) bringAbout() error {
	ctx, cancel := context.WithTimeout(context.Background(), killAttempt)
	defer cancel()
	p.mu.Lock()
	runs := p.lease.Runs && !p.held
	p.mu.Unlock()
	if !runs {
		return p.group.Freeze(ctx)
	}
	err := p.group.Thaw(ctx)
	if err != nil {
		p.mu.Lock()
		p.lease.Runs = false
		p.mu.Unlock()
		p.poke()
	}
	return err
}

func (p *part) setHeld(held bool) {
	p.mu.Lock()
	p.held = held
	p.mu.Unlock()
	p.poke() // the time limit stands still with the job
}

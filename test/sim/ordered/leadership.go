package ordered

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/leader"
)

// The leader's loops, in virtual time: each runs one step of ctld/leader at a
// time, as a task that may wait for the log in its middle.
const (
	planLoop = iota
	dispatchLoop
	commitLoop
	leaseLoop
	purgeLoop
	savedLoop
	loopCount
)

type loop struct {
	planned bool // its step will run
	busy    bool // its step runs, or waits in its middle
	again   bool // it was kicked meanwhile
}

// How often the loops that wait for nothing are run.
const (
	leasesEvery = time.Second
	purgesEvery = 30 * time.Second
	savedEvery  = 5 * time.Second
	sweepsEvery = 30 * time.Second
	leastRest   = 2 * time.Millisecond // between two passes, however soon one is due
)

// win makes the controller believe that it leads. It leads once all that was
// committed before is applied here.
func (c *controller) win(term uint64) {
	c.resign()
	c.believes, c.term = true, term
	c.after(between(c.w.rng, time.Millisecond, 300*time.Millisecond), func() {
		if !c.believes || c.term != term {
			return
		}
		c.applyAll()
		c.spawn(func() { c.lead(term) })
	})
}

// lead begins as ctld's lead does: nothing is answered before the log says that
// the term has begun.
func (c *controller) lead(term uint64) {
	ctx := context.Background()
	still := func() bool { return c.believes && c.term == term }
	c.leader.SetTerm(term)
	for {
		if c.leader.OpenTerm(ctx) == nil {
			break
		}
		c.sleep(100 * time.Millisecond)
		if !still() {
			return
		}
	}
	if !still() {
		return
	}
	c.leader.Begin()
	c.leading, c.since, c.looked, c.memo = true, c.monotonic(), c.monotonic(), leader.Memo{}
	c.w.trace(c.name, "leads term %d at %d", term, c.applied)
	c.kick(planLoop)
	c.every(leasesEvery, term, leaseLoop)
	c.every(purgesEvery, term, purgeLoop)
	c.every(savedEvery, term, savedLoop)
	c.sweep(term)
}

// sleep waits inside a task.
func (c *controller) sleep(length time.Duration) {
	t, over := c.w.current, false
	c.after(length, func() { over = true; c.w.wake(t) })
	for !over {
		c.w.wait()
	}
}

// resign ends the loops.
func (c *controller) resign() {
	if c.leading {
		c.w.trace(c.name, "does not lead any more")
		c.leader.End()
		c.poke()
	}
	c.believes, c.leading = false, false
}

func (c *controller) every(interval time.Duration, term uint64, which int) {
	c.after(interval, func() {
		if c.leading && c.term == term {
			c.kick(which)
			c.every(interval, term, which)
		}
	})
}

func (c *controller) sweep(term uint64) {
	c.after(sweepsEvery, func() {
		if c.leading && c.term == term {
			c.leader.Sweep()
			c.kick(dispatchLoop)
			c.sweep(term)
		}
	})
}

// poke looks which loops were woken, and what the sessions have to send.
func (c *controller) poke() {
	if !c.up {
		return
	}
	plan, dispatch, commit := c.leader.Due()
	if c.leading {
		for which, due := range [...]bool{planLoop: plan, dispatchLoop: dispatch, commitLoop: commit} {
			if due {
				c.kick(which)
			}
		}
	}
	c.w.drain(c)
}

// kick runs a loop's step a moment later, once however often it was kicked.
func (c *controller) kick(which int) {
	l := &c.loops[which]
	switch {
	case l.busy:
		l.again = true
	case !l.planned:
		l.planned = true
		c.after(between(c.w.rng, 10*time.Microsecond, 2*time.Millisecond), func() { c.runLoop(which) })
	}
}

// planAt has a pass made at a time, by the wall clock as it is now: a job's begin
// comes then, or its deadline goes. The zero time is never. What an earlier pass
// found is void.
func (c *controller) planAt(due time.Time) {
	c.passes++
	if due.IsZero() || !c.leading {
		return
	}
	pass, term := c.passes, c.term
	c.after(max(due.Sub(c.wall()), leastRest), func() {
		if c.leading && c.term == term && c.passes == pass {
			c.kick(planLoop)
		}
	})
}

func (c *controller) runLoop(which int) {
	l := &c.loops[which]
	l.planned = false
	if !c.leading {
		return
	}
	l.busy = true
	c.spawn(func() {
		// The lease loop opens the term under a lock.
		if which != leaseLoop {
			c.yields[c.w.current] = true
			defer delete(c.yields, c.w.current)
		}
		c.runStep(which)
		l.busy = false
		if l.again {
			l.again = false
			c.kick(which)
		}
	})
}

func (c *controller) runStep(which int) {
	ctx := context.Background()
	switch which {
	case planLoop:
		if !c.leader.Plan(ctx, c.wall(), &c.memo) && c.leading {
			c.after(100*time.Millisecond, func() { c.kick(planLoop) })
		}
		c.planAt(c.leader.NextPass())
	case dispatchLoop:
		c.leader.Dispatch()
	case commitLoop:
		c.leader.CommitReports(ctx)
	case leaseLoop:
		now := c.monotonic()
		if now.Sub(c.looked) > 5*leasesEvery {
			c.since = now // it was stopped, and heard nobody meanwhile
		}
		c.looked = now
		c.leader.CheckLeases(ctx, now, c.since)
	case savedLoop:
		c.leader.KeepSaved(ctx, c.wall())
	case purgeLoop:
		c.leader.Purge(ctx, c.wall())
	}
}

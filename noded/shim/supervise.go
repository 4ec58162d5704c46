package shim

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// otherNodesMargin is how much longer than the batch host the other nodes
	// wait at the time limit: theirs is only the net below it.
	otherNodesMargin = 30 * time.Second
	// lookEvery is how often an ending part is looked at.
	lookEvery = 20 * time.Millisecond
	// initPatience is how long process 1 may take to end by itself once it is
	// alone, so that it can leave the script's exit code: on a node that is busy
	// that is seconds.
	initPatience = 10 * time.Second
	// killAttempt bounds one attempt to freeze or thaw everything.
	killAttempt = 30 * time.Second
	// stuckAfter is how long what was killed, or has ended, may stay before it
	// is told. Giving back much memory, or a GPU's, takes its time.
	stuckAfter = 5 * time.Second
)

// supervise waits for the end of process 1. Meanwhile it enforces the time
// limit and the lease, and ends the part when asked to.
func (p *part) supervise(running *container.Container) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, signal, err := running.Wait()
		if err != nil {
			p.log.Error("lost sight of process 1: its exit code is unknown", "error", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.initEnded = initStatus{code, signal}
	}()
	limit := newLimit(p.timeLimit(p.order.TimeLimitS))
	defer limit.pause()
	defer p.warning.pause()
	look := time.NewTicker(stuckAfter)
	defer look.Stop()
	exiting := false // process 1 was, at the last look
	for {
		p.mu.Lock()
		ending := p.ending
		p.mu.Unlock()
		if ending != nil {
			p.finish(running, done)
			return
		}
		again := p.keepLease()
		if p.endAsked() {
			continue
		}
		if again != 0 {
			if err := p.leaseTimer.Set(again); err != nil {
				// Without it the job would run on past the end of its lease.
				p.end(pb.EndCause_END_CAUSE_NODE_FAULT, 0, err.Error())
				continue
			}
		}
		p.mu.Lock()
		counts := p.released && p.lease.Runs && !p.held
		limit.set(p.timeLimit(p.limitS))
		p.warning.follow(p.limitS)
		p.mu.Unlock()
		if counts {
			limit.run()
			p.warning.run()
		} else {
			limit.pause()
			p.warning.pause()
		}
		select {
		case <-done:
			return
		case <-p.wake:
		case <-look.C:
			// A process that does not die keeps its namespace's process 1.
			if exiting {
				p.setStuck(survivors(p.group))
			}
			exiting = hasNoMemory(running.Pid())
		case <-p.leaseTimer.C:
		case <-p.warning.timer.C:
			p.warn()
		case <-limit.timer.C:
			p.end(pb.EndCause_END_CAUSE_TIME_LIMIT, killWait(p.order), "")
		}
	}
}

// timeLimit is how long the part may run under a limit in seconds, frozen time
// not counted; 0 = without end.
func (p *part) timeLimit(seconds uint32) time.Duration {
	if seconds == spec.Unlimited {
		return 0
	}
	limit := time.Duration(seconds) * time.Second
	if !p.batch {
		limit += killWait(p.order) + otherNodesMargin
	}
	return limit
}

// finish ends everything: TERM and CONT to all, KILL at the deadline. It
// returns when process 1 has ended. Without a lease there is no grace: a job
// that may have been started elsewhere must not even handle a TERM.
func (p *part) finish(running *container.Container, done <-chan struct{}) {
	p.stopSaving()
	// Nor does one that was saved: it goes on elsewhere from where it stands.
	if !p.mayRun() || p.standsSaved() {
		p.killRest()
		<-done
		return
	}
	p.mu.Lock()
	p.lease.Runs = true
	p.mu.Unlock()
	if err := p.letGo(); err != nil {
		p.log.Warn("the job's processes may be frozen: they are killed at the deadline", "error", err)
	}
	p.mu.Lock()
	gentle := time.Until(p.ending.deadline) > 0
	p.mu.Unlock()
	// A script that is just being started has no process yet: its TERM is owed.
	owed := gentle
	var alone time.Time
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		p.mu.Lock()
		late := !time.Now().Before(p.ending.deadline)
		stuck := time.Since(p.ending.deadline) > stuckAfter
		if again := p.ending.termAgain; !again.IsZero() && !time.Now().Before(again) {
			p.ending.termAgain, owed = time.Time{}, true
		}
		p.mu.Unlock()
		rest := p.jobProcesses(running)
		if len(rest) > 0 {
			alone = time.Time{}
		} else if alone.IsZero() {
			alone = time.Now()
		}
		waits := initPatience
		if !p.started() {
			waits = 0 // process 1 has nothing to report and would wait for ever
		}
		if len(rest) == 0 && time.Since(alone) >= waits {
			break
		}
		if stuck {
			p.setStuck(survivors(p.group))
		}
		if !p.mayRun() {
			p.killRest()
			<-done
			return
		}
		switch {
		case late:
			p.signalJob(running, unix.SIGKILL)
		case owed && len(rest) > 0:
			owed = false
			if p.warnOfPreemption() {
				break
			}
			// In this order, so that a process that stops itself in between
			// wakes up with its TERM.
			p.signalJob(running, unix.SIGTERM)
			p.signalJob(running, unix.SIGCONT)
		}
		select {
		case <-done:
			return
		case <-p.wake:
		case <-tick.C:
		}
	}
	_ = running.Signal(unix.SIGKILL)
	<-done
}

// started says whether process 1 has a script to report about.
func (p *part) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batch && p.released
}

// jobProcesses are the part's processes, without process 1 and without those
// that have ended and wait for it to notice.
func (p *part) jobProcesses(running *container.Container) []int {
	pids, err := p.group.Procs()
	if err != nil {
		p.log.Error("cannot list the job's processes: see whether its control group is there", "error", err)
		return nil
	}
	init := running.Pid()
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == init })
}

func (p *part) signalJob(running *container.Container, signal unix.Signal) {
	for _, pid := range p.jobProcesses(running) {
		_ = unix.Kill(pid, signal) // it may have ended meanwhile
	}
}

// killRest kills what process 1 has left in the part's group: nothing, as a
// rule, because the kernel ends a PID namespace with its process 1. It goes
// on until nothing is left, since until then the part has not ended.
func (p *part) killRest() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), stuckAfter)
		err := p.group.Kill(ctx)
		cancel()
		if err == nil {
			p.setStuck(nil)
			return
		}
		p.setStuck(errors.Join(survivors(p.group), err))
	}
}

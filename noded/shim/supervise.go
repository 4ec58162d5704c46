package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

const (
	// otherNodesMargin is how much longer than the batch host the other nodes
	// wait at the time limit: theirs is only a safety net.
	otherNodesMargin = 30 * time.Second
	// lookEvery is how often an ending allocation is looked at.
	lookEvery = 20 * time.Millisecond
	// initPatience is how long process 1 may take to end by itself once it is
	// alone, so that it can leave the script's exit code: on a node that is busy
	// that is seconds.
	initPatience = 10 * time.Second
	// killAttempt bounds one attempt to freeze or thaw everything.
	killAttempt = 30 * time.Second
	// stuckAfter is how long a process that was killed or has ended may stay before
	// the watchers are told. Freeing much memory, or a GPU's, takes time.
	stuckAfter = 5 * time.Second
)

// supervise waits for the end of process 1. Meanwhile it enforces the time
// limit and the lease, and ends the allocation when asked to.
func (p *alloc) supervise(running *container.Container) {
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
	exiting := false // process 1 was exiting at the last look
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
				// Without a timer, the job would run past the end of its lease.
				p.end(pb.EndCause_END_CAUSE_NODE_FAULT, 0, err.Error())
				continue
			}
		}
		p.mu.Lock()
		counts := p.core.Released && p.core.Runs()
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
			// Process 1 cannot end while a process in its namespace does not die.
			if exiting {
				p.setStuck(remove.Survivors(p.group))
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

// timeLimit is how long the allocation may run under a limit in seconds, without the
// time for which it is frozen; 0 = without end.
func (p *alloc) timeLimit(seconds uint32) time.Duration {
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
func (p *alloc) finish(running *container.Container, done <-chan struct{}) {
	p.stopSaving()
	// A job that was saved must not run either: it resumes elsewhere from where it was
	// frozen.
	p.mu.Lock()
	gently := p.core.End(boottime.Now())
	p.mu.Unlock()
	if !gently {
		p.killRest()
		<-done
		return
	}
	if err := p.thawAfterSave(); err != nil {
		p.log.Warn("the job's processes may be frozen: they are killed at the deadline", "error", err)
	}
	p.mu.Lock()
	gentle := time.Until(p.ending.deadline) > 0
	p.mu.Unlock()
	// A script that is just being started has no process yet: it gets its TERM later.
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
			p.setStuck(remove.Survivors(p.group))
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
			// TERM comes first, so that a process that stops itself in between
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
func (p *alloc) started() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.batch && p.core.Released
}

// jobProcesses are the allocation's processes, without process 1 and without those
// that have ended and wait for it to notice.
func (p *alloc) jobProcesses(running *container.Container) []int {
	pids, err := p.group.Procs()
	if err != nil {
		p.log.Error("cannot list the job's processes: see whether its control group is there", "error", err)
		return nil
	}
	init := running.Pid()
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == init })
}

func (p *alloc) signalJob(running *container.Container, signal unix.Signal) {
	init := running.Pid()
	if err := p.group.SignalThose(signal, func(pid int) bool { return pid != init }); err != nil {
		p.log.Error("a process of the job cannot be signalled: it is killed at the deadline", "signal", signal, "error", err)
	}
}

// killRest kills what process 1 has left in the allocation's group. As a rule that is
// nothing, because the kernel ends a PID namespace with its process 1. killRest tries
// until nothing is left: before that, the allocation has not ended.
func (p *alloc) killRest() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), stuckAfter)
		err := p.group.Kill(ctx)
		cancel()
		if err == nil {
			p.setStuck(nil)
			return
		}
		p.setStuck(errors.Join(remove.Survivors(p.group), err))
	}
}

// hasNoMemory says whether a process has begun to exit: then it has no memory, and no
// process can pretend that.
func hasNoMemory(pid int) bool {
	sizes, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	return err == nil && strings.HasPrefix(string(sizes), "0 ")
}

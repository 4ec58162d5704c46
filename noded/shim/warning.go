package shim

import (
	"context"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// warnPatience bounds how long an end waits until process 1 has passed on the
// signal.
const warnPatience = 2 * time.Second

// warning is the signal that a job has asked for before its end (--signal). It
// counts the job's time as its time limit does, and belongs to supervise as that does.
type warning struct {
	*limit
	signal spec.EndSignal
	given  bool
	sent   bool // under the time limit in force
}

// newWarning reads what the job asked for; "" = nothing.
func newWarning(text string) (*warning, error) {
	w := &warning{limit: newLimit(0), given: text != ""}
	if !w.given {
		return w, nil
	}
	var err error
	if w.signal, err = spec.ParseEndSignal(text); err != nil {
		return nil, fmt.Errorf("%w: %w", bundle.ErrBadAlloc, err)
	}
	return w, nil
}

// resume notes that the job was sent it before it was saved, because less of its time is
// left now.
func (w *warning) resume(order *pb.StartAlloc) {
	w.sent = w.given && order.GetAsSaved() && order.GetTimeLimitS() < w.signal.BeforeS
}

// follow sets its time relative to a time limit in seconds. A signal that has
// been sent is sent again only if the limit was raised so far that its time is
// ahead again.
func (w *warning) follow(limitS uint32) {
	if !w.given || w.signal.BeforeS == 0 || limitS == spec.Unlimited {
		w.set(0)
		return
	}
	length := max(time.Duration(int64(limitS)-int64(w.signal.BeforeS))*time.Second, time.Nanosecond)
	if w.sent && length <= max(w.passed(), time.Nanosecond) {
		return
	}
	if length != w.length {
		w.sent = false
	}
	w.set(length)
}

// passed is how long it has run.
func (l *limit) passed() time.Duration {
	if l.since.IsZero() {
		return l.ran
	}
	return l.ran + time.Since(l.since)
}

// warn sends the signal, because its time has come.
func (p *alloc) warn() {
	p.warning.sent = true
	go p.sendWarning(stepPatience)
}

// warnOfPreemption sends the signal to a job that must make room, unless the job has
// already had it, and says whether some process got it. Otherwise TERM is the
// warning (slurm.conf(5), preempt_send_user_signal).
func (p *alloc) warnOfPreemption() bool {
	p.mu.Lock()
	preempted := p.ending != nil && p.ending.cause == pb.EndCause_END_CAUSE_CANCELLED && !p.ending.termAgain.IsZero()
	p.mu.Unlock()
	if !preempted || !p.warning.given || p.warning.sent {
		return false
	}
	p.warning.sent = true
	return p.sendWarning(warnPatience)
}

// sendWarning says whether some process got the signal.
func (p *alloc) sendWarning(patience time.Duration) bool {
	w := &p.warning.signal
	scope := step.ScopeSteps
	if w.Batch {
		scope = step.ScopeBatch
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.relay.AskInit(ctx, func(c *step.Client) error { return c.Signal(w.Signal, scope, 0) }); err != nil {
		p.log.Info("the signal before the job's end reached nobody", "signal", w.String(), "error", err)
		return false
	}
	p.log.Info("the job was sent the signal before its end", "signal", w.String())
	return true
}

// Package mail sends mail about jobs (--mail-type) while its controller leads.
//
// Contract: nobody waits for a mail. What there is to tell is in the state's outbox
// (ctld/state/mail_events.go), in the order in which it happened, and is trimmed after it
// was handed over: who leads next goes on from there. So an event is told at least once
// whatever becomes of the controllers, and at most maxUnmarked of them twice at a change
// of leader, with the same Message-ID. A program or a server that is away is tried again
// until the state gives the event up; a mail that it refuses is left out. What a user
// chose reaches neither the head of a mail nor a command line unless spec.ParseMailUsers
// has accepted it.
package mail

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

const (
	sendLimit   = 30 * time.Second // for one mail
	markLimit   = 10 * time.Second // for a command
	lookEvery   = 5 * time.Second  // at time limits
	retryFirst  = time.Second
	retryMost   = time.Minute
	maxTries    = 5  // of a mail that is neither taken nor refused
	maxUnmarked = 16 // mails handed over before the log has that
)

// Cluster is what a Mailer needs of the replicated state.
type Cluster interface {
	View() *state.View
	Propose(context.Context, state.Command, state.RequestID) (state.Result, error)
}

// Mailer is the mail of one controller.
type Mailer struct {
	cluster Cluster
	log     *slog.Logger
	clock   func() time.Time
	send    func(context.Context, *letter) error
	wake    chan struct{}
	problem atomic.Pointer[string] // why mails wait; nil = they do not
}

// New makes the mail of a controller on a host. Lead sends it.
func New(cluster Cluster, host string, log *slog.Logger) *Mailer {
	return &Mailer{
		cluster: cluster, log: log, clock: time.Now, wake: make(chan struct{}, 1),
		send: func(ctx context.Context, one *letter) error { return one.send(ctx, host) },
	}
}

// Changed is called with the state after it has changed. It returns at once.
func (m *Mailer) Changed(view *state.View) {
	if waiting, _ := view.MailSize(); waiting == 0 {
		return
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Problem is why mails wait; "" = they do not.
func (m *Mailer) Problem() string {
	if why := m.problem.Load(); why != nil {
		return *why
	}
	return ""
}

// Lead sends mail until ctx ends.
func (m *Mailer) Lead(ctx context.Context) {
	defer m.problem.Store(nil)
	r := newRound(m)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for next := time.After(0); ; {
		wake := m.wake
		if r.failures > 0 { // what else happens does not bring the server back
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			m.look(ctx)
		case <-wake:
			next = time.After(r.work(ctx))
		case <-next:
			next = time.After(r.work(ctx))
		}
	}
}

// look says of which jobs the time limits are nearly over: that is then in the outbox.
func (m *Mailer) look(ctx context.Context) {
	view := m.cluster.View()
	if view.Policy().Mail == nil {
		return
	}
	due := view.TimeLimitsDue(m.clock().UnixMilli())
	if len(due) == 0 {
		return
	}
	if err := m.propose(ctx, state.NoteTimeLimits{Due: due}); err != nil && ctx.Err() == nil {
		m.log.Debug("the time limits that are nearly over could not be noted; it is tried again", "error", err)
	}
}

func (m *Mailer) propose(ctx context.Context, command state.Command) error {
	ctx, cancel := context.WithTimeout(ctx, markLimit)
	defer cancel()
	_, err := m.cluster.Propose(ctx, command, state.RequestID{})
	return err
}

// Package mail sends mail about jobs (--mail-type) while its controller leads.
//
// Contract: nobody waits for a mail. Changed only notes what happened, in a bounded
// queue; what does not fit, or is more than a user may have in an hour, is left out and
// counted. An event is told at most once: a controller that begins to lead tells
// nothing of what was before, and a mail that was accepted by the program or the server
// is not sent again. What a user chose reaches neither the head of a mail nor a command
// line unless spec.ParseMailUsers has accepted it.
package mail

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

const (
	maxQueued    = 1024
	sendLimit    = 30 * time.Second // for one mail
	lookEvery    = 5 * time.Second  // at time limits
	perHour      = 100              // mails to one user
	maxTold      = 4096             // users whose mails are counted
	problemEvery = time.Minute      // between lines of the log about mails that are not sent
)

// letter is one mail.
type letter struct {
	settings      state.Mail
	user          string // the job's owner, who is counted
	to            []string
	subject, body string
}

// Mailer is the mail of one controller.
type Mailer struct {
	view  func() *state.View
	log   *slog.Logger
	host  string
	clock func() time.Time
	queue chan letter

	mu      sync.Mutex
	watch   *watch // nil while this controller does not lead
	sent    map[string]*allowance
	dropped int
	said    time.Time
}

// allowance is how many mails a user had in an hour.
type allowance struct {
	since time.Time
	count int
}

// New makes the mail of a controller on a host. Lead sends it.
func New(view func() *state.View, host string, log *slog.Logger) *Mailer {
	return &Mailer{view: view, log: log, host: host, clock: time.Now, queue: make(chan letter, maxQueued), sent: map[string]*allowance{}}
}

// Changed is called with what changed the state, in order, and with the state after it.
// It returns at once.
func (m *Mailer) Changed(view *state.View, results []*state.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch == nil || view.Policy().Mail == nil {
		return
	}
	for _, result := range results {
		for _, id := range result.ChangedJobs {
			m.put(view, m.watch.changed(view, id))
		}
		m.watch.forget(result.PurgedJobs)
	}
}

// Lead sends mail until ctx ends.
func (m *Mailer) Lead(ctx context.Context) {
	m.mu.Lock()
	m.watch = newWatch(m.view())
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watch = nil
	}()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			m.look()
		case one := <-m.queue:
			limited, cancel := context.WithTimeout(ctx, sendLimit)
			err := one.send(limited, m.host, m.clock())
			if cancel(); err != nil && ctx.Err() == nil {
				m.problem("a mail about a job was not sent", "user", one.user, "error", err)
			}
		}
	}
}

// look tells of the time limits that are nearly over.
func (m *Mailer) look() {
	view := m.view()
	if view.Policy().Mail == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(view, m.watch.limits(view, m.clock().UnixMilli()))
}

// put queues what there is to tell. m.mu is held.
func (m *Mailer) put(view *state.View, events []event) {
	for i := range events {
		if user := events[i].job.Owner().User; !m.allows(user) {
			m.problemLocked("a user has had all the mails of an hour: more are left out", "user", user, "mails", perHour)
			continue
		}
		select {
		case m.queue <- events[i].letter(view):
		default:
			m.problemLocked("mails about jobs are left out: too many wait to be sent", "waiting", maxQueued)
		}
	}
}

// allows counts a mail of a user.
func (m *Mailer) allows(user string) bool {
	now := m.clock()
	had := m.sent[user]
	if had == nil || now.Sub(had.since) >= time.Hour {
		if len(m.sent) >= maxTold {
			clear(m.sent)
		}
		had = &allowance{since: now}
		m.sent[user] = had
	}
	had.count++
	return had.count <= perHour
}

func (m *Mailer) problem(text string, about ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problemLocked(text, about...)
}

// problemLocked writes a line, but not one for each mail.
func (m *Mailer) problemLocked(text string, about ...any) {
	m.dropped++
	if now := m.clock(); now.Sub(m.said) >= problemEvery {
		m.log.Warn(text, append(about, "left_out", m.dropped)...)
		m.said, m.dropped = now, 0
	}
}

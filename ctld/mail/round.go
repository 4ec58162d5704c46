package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// round is the mail of one leadership.
type round struct {
	*Mailer
	through  state.Position // all before was told or left out
	marked   state.Position // and the log has that of these
	unmarked int            // mails that were handed over since
	failures int            // in a row
	tries    int            // of the next mail
	lost     uint64         // events that the state had given up
	had      allowances
	left     leftOut
}

func newRound(m *Mailer) *round {
	view := m.cluster.View()
	_, lost := view.MailSize()
	return &round{Mailer: m, through: view.MailTrimmed(), marked: view.MailTrimmed(), lost: lost, had: allowances{}}
}

// work tells what waits, and returns how long to wait before it is called again, at the
// latest.
func (r *round) work(ctx context.Context) time.Duration {
	err := r.tell(ctx)
	if err == nil {
		r.failures = 0
		r.problem.Store(nil)
		return retryMost
	}
	if ctx.Err() == nil {
		r.failures++
		waiting, _ := r.cluster.View().MailSize()
		why := fmt.Sprintf("mail about jobs waits (%d): %v", waiting, err)
		r.problem.Store(&why)
		r.left.say(r.Mailer, "mails about jobs wait: the program or the server takes none; it is tried again", "waiting", waiting, "error", err)
	}
	return min(retryFirst<<min(r.failures-1, 10), retryMost)
}

// tell hands over the mails that wait, in order. Before there are too many of which the
// log does not know, it is told.
func (r *round) tell(ctx context.Context) error {
	view := r.cluster.View()
	r.through = max(r.through, view.MailTrimmed())
	if _, lost := view.MailSize(); lost > r.lost {
		r.left.count(r.Mailer, int(lost-r.lost), "mails about jobs were given up before they could be sent: too many waited, or for too long",
			"most_of_a_user", bounds.MaxUserMails, "kept_for", time.Duration(bounds.MailKeptMS)*time.Millisecond)
		r.lost = lost
	}
	for event := range view.MailAfter(r.through) {
		if r.unmarked >= maxUnmarked {
			if err := r.mark(ctx); err != nil {
				return err
			}
		}
		if err := r.one(ctx, view, event); err != nil {
			return errors.Join(err, r.mark(ctx))
		}
		r.through, r.tries = event.At, 0
	}
	return r.mark(ctx)
}

// mark says in the log what was handed over.
func (r *round) mark(ctx context.Context) error {
	if r.through <= r.marked {
		return nil
	}
	if err := r.propose(ctx, state.TrimMail{Through: r.through}); err != nil {
		return fmt.Errorf("it could not be noted which mails were sent: %w", err)
	}
	r.marked, r.unmarked = r.through, 0
	return nil
}

// one tells of an event. An error says that it must be told later.
func (r *round) one(ctx context.Context, view *state.View, event *state.MailEvent) error {
	if view.Policy().Mail == nil {
		r.left.count(r.Mailer, 1, "mails about jobs are left out: the policy has no [mail] any longer")
		return nil
	}
	if r.tries == 0 && !r.had.allows(event.User, r.clock()) {
		r.left.count(r.Mailer, 1, "a user has had all the mails of an hour: more are left out", "user", event.User, "mails", perHour)
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	r.tries++
	err := r.send(limited, write(event, view.Policy()))
	switch {
	case err == nil:
		r.unmarked++
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRefused), r.tries >= maxTries && !errors.Is(err, errAway):
		r.left.count(r.Mailer, 1, "a mail about a job was not sent", "user", event.User, "job", event.Job, "tries", r.tries, "error", err)
	default:
		return err
	}
	return nil
}

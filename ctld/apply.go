package ctld

import (
	"context"
	"io"
	"log/slog"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/leader"
	"github.com/gleaner-hpc/gleaner/ctld/mail"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// applier is the cluster as the log sees it: it applies committed commands, and
// tells the followers and this leader's loops.
type applier struct {
	*cluster
	loops   *leader.Leader
	mail    *mail.Mailer
	changed []*state.Result // by the batch being applied
}

// ApplyBatch implements replica.Batcher: one lock, one View and one wake-up for
// all commands that came in one batch.
func (a *applier) ApplyBatch(apply func()) {
	a.mu.Lock()
	a.changed = nil
	apply()
	// Only a leader's loops need this: other controllers need not pay for the
	// View.
	if len(a.changed) == 0 || !a.loops.Leading() {
		a.mu.Unlock()
		return
	}
	view, changed := a.state.View(), a.changed
	a.mu.Unlock()
	a.loops.Changed(view, changed)
	a.mail.Changed(view)
}

// Apply implements replica.Machine. ApplyBatch calls it. Followers are told of
// each command with the state as it was then.
func (a *applier) Apply(index uint64, command []byte) (any, error) {
	result, err := a.state.Apply(index, command)
	if err != nil {
		return nil, err
	}
	a.noteApplied(&result)
	if result.CertificatesRevoked {
		a.noteRevoked()
	}
	if len(result.ChangedJobs)+len(result.ChangedNodes)+len(result.PurgedJobs) > 0 || result.PolicyChanged || result.AccountsChanged {
		a.changed = append(a.changed, &result)
		if a.feed.followed() {
			a.feed.publish(api.Change{View: a.state.View(), Result: &result})
		}
	}
	return result, nil
}

// noteApplied writes which request an entry of the log was, on every
// controller, so that a reader can follow a request across them.
func (a *applier) noteApplied(result *state.Result) {
	if result.RequestID == (state.RequestID{}) || !a.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	jobs := result.ChangedJobs
	a.log.Debug("applied", "index", result.Index, "command", result.Kind.String(), "request_id", uuid.UUID(result.RequestID).String(),
		"repeated", result.Repeated, "jobs", jobs[:min(len(jobs), maxJobsNoted)], "count", len(jobs))
}

// maxJobsNoted bounds the jobs named in one line of the log.
const maxJobsNoted = 16

// Capture implements replica.Machine.
func (a *applier) Capture() replica.Image { return a.View() }

// Restore implements replica.Machine.
func (a *applier) Restore(reader io.Reader) error {
	restored, err := state.Restore(reader)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.state = restored
	a.mu.Unlock()
	// The changes in between are not sent one by one: followers list again.
	a.feed.cutAll()
	a.noteRevoked()
	select {
	case a.replaced <- struct{}{}:
	default:
	}
	return nil
}

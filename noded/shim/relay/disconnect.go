package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A job cannot be saved while something outside is connected to it: one end of
// the connection would stay behind. What connects it with its own supervisor is
// closed before the job is frozen, and open again before it resumes. The job's commands
// repeat calls that are cut off or refused meanwhile.

// maxQuestions bounds the questions to process 1 that are under way.
const maxQuestions = 64

// questionPatience bounds the wait for those.
const questionPatience = 10 * time.Second

// byePatience is how long the programs of the job get to close their ends.
const byePatience = 2 * time.Second

// StreamsError is the error of a save while step streams are open. It says nothing
// about the job once they are closed.
type StreamsError struct{ text string }

// Error implements error.
func (e *StreamsError) Error() string { return e.text }

// OpenStreams says which step streams to other nodes keep the allocation from being
// saved: one end of each is a connection of a program of the job, or of process 1,
// with the supervisor, which cannot be closed without ending what goes over it. nil
// = none.
func (r *Relay) OpenStreams() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.openStreams()
}

func (r *Relay) openStreams() error {
	switch {
	case r.opened > 0:
		return &StreamsError{fmt.Sprintf("a step that was started here runs on other nodes (grun, %d connections): it can be saved when the step is over, or by itself with --checkpoint=app", r.opened)}
	case r.joined > 0:
		return &StreamsError{fmt.Sprintf("a step that another of its nodes started runs here (grun, %d connections): it can be saved when the step is over, or by itself with --checkpoint=app", r.joined)}
	}
	return nil
}

// beginStream counts one more step stream in open. It refuses while the allocation is
// saved, which would cut the stream off. end undoes it.
func (r *Relay) beginStream(open *int) (end func(), err error) {
	add := func(by int) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if by > 0 && r.disconnected {
			return status.Error(codes.Unavailable, "the job is being saved: try again")
		}
		*open += by
		return nil
	}
	if err := add(1); err != nil {
		return nil, err
	}
	r.Changed()
	return func() {
		_ = add(-1)
		r.Changed()
	}, nil
}

// Disconnect closes what connects the job with its supervisor, until Reconnect.
func (r *Relay) Disconnect(ctx context.Context) error {
	if err := r.OpenStreams(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, questionPatience)
	defer cancel()
	if err := r.questions.Acquire(limited, maxQuestions); err != nil {
		return errors.New("process 1 of the job does not answer what it was asked: see whether it was stopped")
	}
	r.mu.Lock()
	if err := r.openStreams(); err != nil {
		r.mu.Unlock()
		r.questions.Release(maxQuestions)
		return err
	}
	r.disconnected = true
	listener := r.listener
	r.listener = nil
	r.mu.Unlock()
	if listener != nil {
		listener.close(byePatience)
	}
	if !r.attached.hangUp(byePatience) {
		return errors.New("process 1 of the job does not close the connections of attached sessions, because the job is parked or was stopped: end the sessions, or wait until it runs again")
	}
	return nil
}

// Reconnect undoes Disconnect. It does nothing without one.
func (r *Relay) Reconnect() error {
	r.mu.Lock()
	disconnected := r.disconnected
	r.mu.Unlock()
	if !disconnected {
		return nil
	}
	if err := r.Serve(); err != nil {
		return fmt.Errorf("open the job's socket again: its commands cannot reach a controller: %w", err)
	}
	r.mu.Lock()
	r.disconnected = false
	r.mu.Unlock()
	r.questions.Release(maxQuestions)
	return nil
}

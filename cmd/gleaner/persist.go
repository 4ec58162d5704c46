package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// contactTime is how long a command looks for a controller that carries
	// its request out: longer than one takes to restart, or another to take
	// over.
	contactTime = 30 * time.Second
	// queryTime is how long a question looks where nothing listens, or something
	// that is no controller. Nothing is lost, and whoever looks at a queue would
	// rather know that the controllers are away.
	queryTime = 5 * time.Second
	// answerTime is how long a controller has for the first word of its answer
	// before another is asked; twice as long the next time, because it may be
	// a cluster under load and not a controller that hangs.
	answerTime = 3 * time.Second
	// noticeTime is when a command says that it is still looking.
	noticeTime = time.Second
)

// leastPatience is the shortest attempt that is worth making: one cut off at
// once would only look as if a controller hung.
const leastPatience = 50 * time.Millisecond

// timeoutVariable sets both contactTime and queryTime, in seconds.
const (
	timeoutVariable   = "GLEANER_CONTROLLER_TIMEOUT"
	maxTimeoutSeconds = 7 * 24 * 3600
)

// searchLimit is how long a controller is looked for.
type searchLimit struct {
	total   time.Duration
	nowhere time.Duration // while nothing listens anywhere
}

// limits are those of one command.
type limits struct {
	change, question searchLimit
}

func limitsOf(inv *option.Invocation) (limits, error) {
	standard := limits{change: searchLimit{contactTime, contactTime}, question: searchLimit{contactTime, queryTime}}
	text := inv.Getenv(timeoutVariable)
	if text == "" {
		return standard, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil || seconds == 0 || seconds > maxTimeoutSeconds {
		return standard, fmt.Errorf("%s is %.40q: set it to how many seconds to look for a controller, from 1 to %d, or unset it", timeoutVariable, text, maxTimeoutSeconds)
	}
	given := searchLimit{time.Duration(seconds) * time.Second, time.Duration(seconds) * time.Second}
	return limits{given, given}, nil
}

// silence is the error of a controller that was given so long and did not
// answer.
type silence time.Duration

func (s silence) Error() string {
	return fmt.Sprintf("it does not answer: nothing came for %v", time.Duration(s).Round(100*time.Millisecond))
}

// persist makes attempts until one succeeds, or fails for good, or the time for
// them is over; each goes to the next controller. An attempt gives up by
// itself when nothing comes within its patience, with a silence; one that
// must not be repeated wraps its error with backoff.Permanent.
func (c *client) persist(ctx context.Context, limit searchLimit, attempt func(ctx context.Context, patience time.Duration) error) error {
	started := time.Now()
	c.heard.Store(false)
	defer c.noticeLater()()
	pace, patience, reached, perhapsDone := retryPace(), answerTime, false, false
	var last error
	for {
		left := limit.left(reached, started)
		err := attempt(ctx, min(patience, left))
		if status.Code(err) == codes.DeadlineExceeded && !neverSent(err) {
			// The controller knows the deadline too, and may be first to say so.
			err = silence(min(patience, left))
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !worthRepeating(err):
			if permanent := (*backoff.PermanentError)(nil); errors.As(err, &permanent) {
				return permanent.Unwrap()
			}
			return err
		}
		perhapsDone = perhapsDone || !neverSent(err)
		// That nothing came in what was left of the time says less than what was
		// found before.
		if last == nil || !isSilence(err) || patience <= left {
			last = err
			reached = reached || !neverSent(err) || isSilence(err) // a busy host is slow to say anything
		}
		if isSilence(err) {
			c.controllers.Leave()
			patience *= 2
		}
		pause := pace.NextBackOff()
		if limit.left(reached, started) <= pause+leastPatience {
			if isSilence(last) && !neverSent(last) {
				last = silence(time.Since(started))
			}
			return &unreachableError{targets: c.targets, cause: last, perhapsDone: perhapsDone}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// left is what is left of the time.
func (l searchLimit) left(reached bool, started time.Time) time.Duration {
	total := l.nowhere
	if reached {
		total = l.total
	}
	return total - time.Since(started)
}

// worthRepeating says whether another controller, or the same one later, may
// carry out what failed.
func worthRepeating(err error) bool {
	if permanent := (*backoff.PermanentError)(nil); errors.As(err, &permanent) {
		return false
	}
	return status.Code(err) == codes.Unavailable || isSilence(err)
}

// cutOff is the error of an attempt whose context may have ended it: then why.
// One that waited for a connection only is told from one that waited for an
// answer.
func cutOff(ctx context.Context, err error) error {
	switch message := status.Convert(err).Message(); {
	case err == nil || ctx.Err() == nil:
		return err
	case strings.Contains(message, noConnection):
		return status.Error(codes.DeadlineExceeded, message)
	}
	return context.Cause(ctx)
}

// noConnection is how gRPC says that a call waited for its connection.
const noConnection = "waiting for connections to become ready"

// isSilence says whether nothing came in time: no answer, or no connection.
func isSilence(err error) bool {
	quiet := silence(0)
	return errors.As(err, &quiet) || neverSent(err) && status.Code(err) == codes.DeadlineExceeded
}

// neverSent says whether the request surely did not leave this machine: there
// was no connection yet.
func neverSent(err error) bool {
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.Unavailable:
		return strings.HasPrefix(message, "connection error: ") || strings.Contains(message, "while dialing")
	case codes.DeadlineExceeded:
		return strings.Contains(message, noConnection)
	}
	return false
}

// noticeLater says after a while, once, that the command is still looking. What
// it returns ends that.
func (c *client) noticeLater() (stop func()) {
	var said sync.WaitGroup
	said.Add(1)
	timer := time.AfterFunc(noticeTime, func() {
		defer said.Done()
		if c.heard.Load() {
			return
		}
		fmt.Fprintf(c.notices, "%s: no controller has answered yet at %s; still trying\n", c.program, format.Printable(strings.Join(c.targets, ", ")))
	})
	return func() {
		if !timer.Stop() {
			said.Wait()
		}
	}
}

// retryPace is the pauses between attempts. The longest is short beside the
// time that the controllers need to choose a new leader.
func retryPace() backoff.BackOff {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval = 50 * time.Millisecond
	pace.MaxInterval = 500 * time.Millisecond
	return pace
}

package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/munge"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// ContactTime is how long a command looks for a controller that carries
	// its request out: longer than one takes to restart, or another to take
	// over.
	ContactTime = 30 * time.Second
	// QueryTime is how long a question looks where nothing listens, or something
	// that is no controller. Nothing is lost, and a user who looks at a queue would
	// rather know that the controllers are away.
	QueryTime = 5 * time.Second
	// AnswerTime is how long a controller has for the first word of its answer
	// before another is asked; twice as long the next time, because it may be
	// a cluster under load and not a controller that hangs.
	AnswerTime = 3 * time.Second
	// NoticeTime is when a command says that it is still looking.
	NoticeTime = time.Second
)

// leastPatience is the shortest attempt that is worth making: one cut off at
// once would only look as if a controller hung.
const leastPatience = 50 * time.Millisecond

// maxToldToWait bounds the pause that a controller asks for.
const maxToldToWait = 10 * time.Second

// TimeoutVariable sets both ContactTime and QueryTime, in seconds.
const (
	TimeoutVariable   = "GLEANER_CONTROLLER_TIMEOUT"
	MaxTimeoutSeconds = 7 * 24 * 3600
)

// searchLimit is how long a controller is looked for.
type searchLimit struct {
	Total   time.Duration
	Nowhere time.Duration // while nothing listens anywhere
}

// limits are those of one command.
type limits struct {
	change, Question searchLimit
}

func limitsOf(inv *option.Invocation) (limits, error) {
	standard := limits{change: searchLimit{ContactTime, ContactTime}, Question: searchLimit{ContactTime, QueryTime}}
	text := inv.Getenv(TimeoutVariable)
	if text == "" {
		return standard, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 32)
	if err != nil || seconds == 0 || seconds > MaxTimeoutSeconds {
		return standard, fmt.Errorf("%s is %.40q: set it to how many seconds to look for a controller, from 1 to %d, or unset it", TimeoutVariable, text, MaxTimeoutSeconds)
	}
	given := searchLimit{time.Duration(seconds) * time.Second, time.Duration(seconds) * time.Second}
	return limits{given, given}, nil
}

// Silence is the error of a controller that was given so long and did not
// answer.
type Silence time.Duration

func (s Silence) Error() string {
	return fmt.Sprintf("it does not answer: nothing came for %v", time.Duration(s).Round(100*time.Millisecond))
}

// Persist makes attempts until one succeeds, or fails for good, or the time for
// them is over; each goes to the next controller. An attempt gives up by
// itself when nothing comes within its patience, with a silence; one that
// must not be repeated wraps its error with backoff.Permanent.
func (c *Client) Persist(ctx context.Context, limit searchLimit, attempt func(ctx context.Context, patience time.Duration) error) error {
	started := time.Now()
	c.heard.Store(false)
	c.toWait.Store(false)
	defer c.noticeLater()()
	pace, patience, reached, perhapsDone := RetryPace(), AnswerTime, false, false
	var last error
	for {
		left := limit.left(reached, started)
		err := attempt(ctx, min(patience, left))
		if status.Code(err) == codes.DeadlineExceeded && !neverSent(err) {
			// The controller knows the deadline too, and may be first to say so.
			err = Silence(min(patience, left))
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
		delay, tooOften := ToldToWait(err)
		c.toWait.Store(tooOften)
		perhapsDone = perhapsDone || !neverSent(err) && !tooOften
		// That nothing came in what was left of the time says less than what was
		// found before.
		if last == nil || !IsSilence(err) || patience <= left {
			last = err
			reached = reached || !neverSent(err) || IsSilence(err) // a busy host is slow to say anything
		}
		if IsSilence(err) {
			c.Controllers.Leave()
			patience *= 2
		}
		pause := max(pace.NextBackOff(), delay)
		if limit.left(reached, started) <= pause+leastPatience {
			if tooOften {
				return err
			}
			if IsSilence(last) && !neverSent(last) {
				last = Silence(time.Since(started))
			}
			return &UnreachableError{Targets: c.Targets, Cause: last, PerhapsDone: perhapsDone}
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
	total := l.Nowhere
	if reached {
		total = l.Total
	}
	return total - time.Since(started)
}

// worthRepeating reports whether another controller, or the same one later, may
// carry out what failed.
func worthRepeating(err error) bool {
	if permanent := (*backoff.PermanentError)(nil); errors.As(err, &permanent) {
		return false
	}
	if _, final, _ := munge.Refusal(status.Convert(err).Message()); final {
		return false
	}
	_, tooOften := ToldToWait(err)
	return tooOften || status.Code(err) == codes.Unavailable || IsSilence(err)
}

// ToldToWait reports whether the controllers make this user wait, because the
// user asks too often, and for how long. Such a request had no effect.
func ToldToWait(err error) (delay time.Duration, told bool) {
	said := status.Convert(err)
	if said.Code() != codes.ResourceExhausted {
		return 0, false
	}
	for _, detail := range said.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return min(max(retry.GetRetryDelay().AsDuration(), 0), maxToldToWait), true
		}
	}
	return 0, false
}

// CutOff is the error of an attempt whose context may have ended it: then why.
// One that waited for a connection only is told from one that waited for an
// answer.
func CutOff(ctx context.Context, err error) error {
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

// IsSilence reports whether nothing came in time: no answer, or no connection.
func IsSilence(err error) bool {
	quiet := Silence(0)
	return errors.As(err, &quiet) || neverSent(err) && status.Code(err) == codes.DeadlineExceeded
}

// neverSent reports whether the request surely did not leave this machine: there
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
func (c *Client) noticeLater() (stop func()) {
	var said sync.WaitGroup
	said.Add(1)
	timer := time.AfterFunc(NoticeTime, func() {
		defer said.Done()
		if c.heard.Load() {
			return
		}
		if c.toWait.Load() {
			fmt.Fprintf(c.Notices, "%s: you ask the controllers more often than one user may (rl_refill_rate in gcontrol show config); waiting and trying again\n", c.Program)
			return
		}
		fmt.Fprintf(c.Notices, "%s: no controller has answered yet at %s; still trying\n", c.Program, format.Printable(strings.Join(c.Targets, ", ")))
	})
	return func() {
		if !timer.Stop() {
			said.Wait()
		}
	}
}

// RetryPace is the pauses between attempts. The longest is short compared to
// the time that the controllers need to choose a new leader.
func RetryPace() backoff.BackOff {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval = 50 * time.Millisecond
	pace.MaxInterval = 500 * time.Millisecond
	return pace
}

// LostTime is how long --wait keeps looking for a controller that answers: it
// outlasts a night's repair, and is an end all the same.
var LostTime = 12 * time.Hour

// PingTime is how long a controller has to answer: one that does not answer
// in this time counts as down.
var PingTime = 2 * time.Second

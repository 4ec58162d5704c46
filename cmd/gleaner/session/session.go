// Package session is the client of a step that process 1 of a job keeps, reached
// through the controllers: it opens one (Begin) or joins one (Client.Join), passes
// on the terminal, input and signals, and finds it again when the connection
// breaks or the job moves.
//
// No byte is lost or repeated: both sides count what they have had.
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// Client is a user's end of a session: a step that process 1 of a job
// keeps, whether a client is attached or not. Connections to it come and go, as controllers do,
// and the job may be on another node each time: what was typed and not taken is
// kept here, and the output resumes from what has come.
type Client struct {
	inv     *option.Invocation
	client  *client.Client
	job     *pb.JobId
	jobName string
	open    *step.Open   // that begins the session; nil = it is there
	attach  *step.Attach // to the session, once it is known to be there
	screen  *screen      // the user's terminal; nil = there is none
	input   *typedInput
	signals <-chan os.Signal // for the task, or for this command
	leave   <-chan struct{}  // closed when the user wants to leave

	// exact: a session that goes back to what it was earlier is ended, for what comes again
	// could not be told from what is new.
	exact bool
	// silent: how the task ended is said by itself, as by a grun inside the job.
	silent   bool
	detached bool // the user has left it to itself

	attached  bool // at least once
	has       uint64
	epoch     uint32
	node      string
	said      string // why there is no connection
	lostAt    time.Time
	interrupt time.Time
	kill      <-chan time.Time // when what was told to end is killed; nil = it was not
}

var (
	errDetached = errors.New("detached")
	// ErrGone is returned, wrapped, when a session is not there any more though its job is.
	ErrGone     = errors.New("the session is gone")
	errReplaced = errors.New("another client has attached to this session")
)

// run stays with the session to its end, or until the user leaves. The error
// carries the exit status.
func (s *Client) run(ctx context.Context) error {
	s.lostAt = time.Now()
	pace := client.RetryPace()
	for {
		visited, ended, err := s.visit(ctx)
		if visited {
			s.lostAt, pace = time.Now(), client.RetryPace()
		}
		if ended != nil {
			return s.over(ended)
		}
		if err, final := s.final(ctx, err); final {
			return err
		}
		select {
		case <-s.leave:
			return s.left()
		case sig := <-s.signals:
			if s.endsWaiting(sig) {
				return s.left()
			}
		case <-ctx.Done():
		case <-time.After(pace.NextBackOff()):
		}
	}
}

// visit attaches and stays as long as the connection does. visited: it was
// attached.
func (s *Client) visit(ctx context.Context) (visited bool, ended *step.Exited, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, where, err := openSession(ctx, s.client, &pb.Attach{Job: s.job})
	if err != nil {
		return false, nil, err
	}
	at := step.NewAttachment(stream)
	defer stream.Close()
	hello, err := stream.begin(at, s.question())
	if err != nil {
		return false, nil, err
	}
	if s.exact && s.attached && (hello.Output != s.has || hello.Input < s.input.first()) {
		s.discard(stream, at, hello.Step)
		return false, nil, s.gone("resumes from before that")
	}
	if err := s.welcome(hello, where); err != nil {
		return false, nil, err
	}
	events := make(chan sessionEvent)
	go listen(ctx, at, events)
	ended, err = s.stay(ctx, at, events)
	if ended != nil || errors.Is(err, errDetached) {
		s.part(stream, at, events, ended != nil)
	}
	return true, ended, err
}

// discard kills a session, and hears of its end.
func (s *Client) discard(stream *sessionStream, at *step.Attachment, number uint32) {
	late := time.AfterFunc(partTime, func() { _ = stream.Close() })
	defer late.Stop()
	if at.Send(&step.Signal{Signal: uint32(syscall.SIGKILL), Scope: step.ScopeStep, Step: number}) != nil {
		return
	}
	for {
		message, err := at.Next()
		if err != nil {
			return
		}
		if _, ended := message.(*step.Exited); ended {
			_ = errors.Join(at.Send(&step.Taken{Ended: true}), at.CloseWrite())
			return
		}
	}
}

// gone is the error of who was attached, and has lost the session.
func (s *Client) gone(why string) error {
	return option.Fail(1, "%w: job %s %s", ErrGone, s.jobName, why)
}

// part says the last word, and sees that it arrives.
func (s *Client) part(stream *sessionStream, at *step.Attachment, events <-chan sessionEvent, ended bool) {
	late := time.AfterFunc(partTime, func() { _ = stream.Close() })
	defer late.Stop()
	if at.Send(&step.Taken{Output: s.has, Ended: ended}) != nil || at.CloseWrite() != nil {
		return
	}
	for event := range events {
		if event.err != nil {
			return
		}
	}
}

// question is what process 1 is asked first.
func (s *Client) question() step.Message {
	if s.attach == nil {
		return s.open
	}
	ask := *s.attach
	if s.attached {
		ask.Output = &s.has
	}
	if s.screen != nil {
		ask.Window = s.screen.size()
	}
	return &ask
}

// welcome takes what process 1 says of the session.
func (s *Client) welcome(hello *step.Attached, where *pb.Attached) error {
	if err := s.input.received(hello.Input, hello.Written); err != nil {
		return err
	}
	epoch, moved := where.GetAlloc().GetEpoch(), s.attached && s.epoch != where.GetAlloc().GetEpoch()
	switch {
	case moved:
		s.say("job %s resumes on %s", s.jobName, format.Printable(where.GetNode()))
	case s.said != "":
		s.say("job %s: the session continues", s.jobName)
	}
	switch {
	case s.attached && hello.Output < s.has:
		s.say("it is as it was earlier, when its image was made: some of it may come again")
	case s.attached && hello.Output > s.has:
		s.say("%d bytes of its output were not kept meanwhile", hello.Output-s.has)
	}
	s.attach = &step.Attach{Step: hello.Step, Name: hello.Name, Client: s.clientName()}
	s.attached, s.said, s.epoch, s.node, s.has = true, "", epoch, where.GetNode(), hello.Output
	if !hello.Terminal {
		s.screen.restore()
		s.screen = nil
	}
	return nil
}

func (s *Client) clientName() string {
	if s.attach != nil {
		return s.attach.Client
	}
	return s.open.Client
}

// sessionEvent is what process 1 said, or the error that ended the connection.
type sessionEvent struct {
	message step.Message
	err     error
}

// listen passes on what process 1 says, until the connection ends.
func listen(ctx context.Context, at *step.Attachment, events chan<- sessionEvent) {
	for {
		message, err := at.Next()
		select {
		case events <- sessionEvent{message, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// stay passes bytes on until the session or the connection ends.
func (s *Client) stay(ctx context.Context, at *step.Attachment, events <-chan sessionEvent) (*step.Exited, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.input.send(ctx, at)
	resized := s.screen.resized(ctx)
	for {
		select {
		case event := <-events:
			ended, err := s.take(at, event)
			if ended != nil || err != nil {
				return ended, err
			}
		case <-resized:
			if err := at.Send(&step.Resize{Window: *s.screen.size()}); err != nil {
				return nil, err
			}
		case sig := <-s.signals:
			if s.leavesAt(sig) {
				return nil, errDetached
			}
			for _, number := range s.toSend(sig) {
				if err := at.Send(&step.Signal{Signal: uint32(number), Scope: step.ScopeStep, Step: s.attach.Step}); err != nil {
					return nil, err
				}
			}
		case <-s.kill:
			if err := at.Send(&step.Signal{Signal: uint32(syscall.SIGKILL), Scope: step.ScopeStep, Step: s.attach.Step}); err != nil {
				return nil, err
			}
		case <-s.leave:
			s.input.flush(partTime)
			return nil, errDetached
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Client) take(at *step.Attachment, event sessionEvent) (*step.Exited, error) {
	switch message := event.message.(type) {
	case *step.Output:
		writer := s.inv.Stdout
		if message.Stream == step.Stderr {
			writer = s.inv.Stderr
		}
		if _, err := writer.Write(message.Data); err != nil {
			return nil, option.Fail(1, "the output of the session cannot be written: %w", console.Reason(err))
		}
		s.has += uint64(len(message.Data))
		return nil, at.Send(&step.Taken{Output: s.has})
	case *step.Written:
		return nil, s.input.written(message.Input)
	case *step.Exited:
		return message, nil
	case *step.Failed:
		return nil, errReplaced
	}
	return nil, event.err
}

// typing reports whether what the user types at a terminal goes to the session as it
// is, interrupts too.
func (s *Client) typing() bool { return s.screen != nil && s.screen.state != nil }

// begun reports whether this command began the session, and does not only visit it.
func (s *Client) begun() bool { return s.open != nil }

// leavesAt reports whether a signal leaves the session to itself: one that says that
// the user's terminal has gone, and for who only visits also one to end.
func (s *Client) leavesAt(sig os.Signal) bool {
	return s.typing() && (!s.begun() || sig == syscall.SIGHUP)
}

// toSend is what the task gets for a signal: that, as a rule. Of two interrupts
// within a second the second cannot be ignored. To end what one began ends the
// step, as with srun: a shell that ignores SIGTERM heeds a SIGHUP, and what
// heeds neither is killed after a while, or at once if asked again.
func (s *Client) toSend(sig os.Signal) []syscall.Signal {
	number, _ := sig.(syscall.Signal) // all signals are, on Unix
	switch {
	case number == syscall.SIGINT:
		if time.Since(s.interrupt) < InterruptPair {
			number = syscall.SIGKILL
		}
		s.interrupt = time.Now()
	case !s.begun() || number != syscall.SIGTERM && number != syscall.SIGHUP:
	case s.kill != nil:
		number = syscall.SIGKILL
	default:
		s.kill = time.After(KillWait)
		if s.open.Window != nil && number == syscall.SIGTERM {
			return []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGCONT}
		}
		return []syscall.Signal{number, syscall.SIGCONT}
	}
	return []syscall.Signal{number}
}

// endsWaiting reports whether a signal that comes while nobody could take it ends
// this command: one interrupt says so, and another does.
func (s *Client) endsWaiting(sig os.Signal) bool {
	if sig == syscall.SIGINT && !s.typing() && time.Since(s.interrupt) >= InterruptPair {
		s.interrupt = time.Now()
		s.say("the session cannot be reached; another interrupt leaves it to itself")
		return false
	}
	return sig != syscall.SIGCONT
}

// final reports whether the command ends after a connection that broke, or that did
// not come about, and how; if not, another is tried.
func (s *Client) final(ctx context.Context, why error) (err error, final bool) {
	refused, failed, failure := (*refusedError)(nil), (*step.FailedError)(nil), (*option.Failure)(nil)
	switch {
	case errors.Is(why, errDetached):
		return s.left(), true
	case ctx.Err() != nil:
		return option.Exit(console.Interrupted), true
	case errors.As(why, &failure):
		return why, true
	case errors.As(why, &failed):
		return s.refused(failed), true
	case errors.Is(why, errReplaced), errors.Is(why, errMiscounted), errors.Is(why, step.ErrMalformed),
		errors.Is(why, step.ErrTooLong), errors.Is(why, step.ErrUnexpected):
		return option.Fail(1, "%w", why), true
	case errors.As(why, &refused) && !refused.later:
		return s.cannot(refused.Error()), true
	}
	switch status.Code(why) {
	case codes.NotFound, codes.FailedPrecondition:
		if !s.attached {
			return s.cannot(client.Plain(why)), true
		}
	case codes.PermissionDenied, codes.InvalidArgument, codes.Unauthenticated:
		return s.cannot(client.Plain(why)), true
	case codes.Unimplemented:
		return s.cannot("a controller, or the job's node, is older than this command: " + client.Plain(why)), true
	}
	err = s.wait(ctx, why)
	return err, err != nil
}

// cannot is the error of who was never attached, or is not any more.
func (s *Client) cannot(why string) error {
	if s.open != nil && !s.attached {
		return option.Fail(1, "Unable to create step for job %s: %s", s.jobName, why)
	}
	return option.Fail(1, "Unable to attach to job %s: %s", s.jobName, why)
}

// refused is what process 1 refuses: a program that is not there, or a session.
func (s *Client) refused(failed *step.FailedError) error {
	if s.attach == nil {
		return option.Fail(min(max(failed.Code, 1), 255), "%s", format.Printable(failed.Text))
	}
	if s.attached {
		return s.gone("was started over, or resumes from before it began")
	}
	return option.Fail(1, "Invalid job step specified: %s; gattach %s shows what there is", format.Printable(failed.Text), s.jobName)
}

// over is the end of the task.
func (s *Client) over(ended *step.Exited) error {
	code, how := ended.Code, fmt.Sprintf("Exited with exit code %d", ended.Code)
	if ended.Signal != 0 {
		text := syscall.Signal(ended.Signal).String()
		code, how = 128+ended.Signal, strings.ToUpper(text[:1])+text[1:]
	}
	if code != 0 && !s.inv.Given("quiet") && !s.silent {
		s.say("error: %s: task 0: %s", format.Printable(s.node), how)
	}
	return option.Exit(code)
}

// left says how to come back.
func (s *Client) left() error {
	if s.attach == nil {
		return option.Exit(console.Interrupted)
	}
	s.detached = true
	s.say("detached; the session continues: gattach %s.%d", s.jobName, s.attach.Step)
	return nil
}

// say writes a line of this command's, also where the terminal is raw.
func (s *Client) say(text string, arguments ...any) {
	if s.inv.Given("quiet") && !strings.HasPrefix(text, "error: ") {
		return
	}
	line := fmt.Sprintf("%s: %s\n", s.inv.Command.Program(), fmt.Sprintf(text, arguments...))
	if s.screen != nil {
		line = "\r\n" + strings.ReplaceAll(line, "\n", "\r\n")
	}
	fmt.Fprint(s.inv.Stderr, line)
}

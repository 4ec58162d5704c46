package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// contactTime is how long a command looks for a controller that answers:
	// longer than a controller takes to restart or another to take over.
	contactTime = 30 * time.Second
	// noticeTime is when it says that it is still looking.
	noticeTime = 3 * time.Second
)

// ErrUnreachable is returned when no controller answered in time.
var ErrUnreachable = errors.New("unable to contact a controller")

// unreachableError says where a command looked for a controller.
type unreachableError struct {
	targets []string
	cause   error
	// perhapsDone: a controller was reached, but the connection broke before
	// it answered; whether the request took effect is not known.
	perhapsDone bool
}

func (e *unreachableError) Error() string {
	cause := plain(e.cause)
	advice := "Is gctld running there? Set GLEANER_CONTROLLER, or --controller, to where it listens"
	if cause == unix.EACCES.Error() {
		advice = "You may not open that socket: ask its owner, or set GLEANER_CONTROLLER, or --controller, to one that you may"
	}
	return fmt.Sprintf("%v at %s (%s)\n%s", ErrUnreachable, format.Printable(strings.Join(e.targets, ", ")), cause, advice)
}

func (e *unreachableError) Unwrap() error { return ErrUnreachable }

// client speaks to whichever controller answers.
type client struct {
	pb.ControllerClient
	connection *grpc.ClientConn
	targets    []string
	notices    io.Writer
	program    string
}

// connect prepares a client; it contacts nobody yet.
func connect(inv *option.Invocation) (*client, error) {
	targets := dial.Targets(inv.Text(option.Controller))
	connection, err := dial.Dial(targets, "")
	if err != nil {
		return nil, err
	}
	return &client{
		ControllerClient: pb.NewControllerClient(connection), connection: connection,
		targets: targets, notices: inv.Stderr, program: inv.Command.Program(),
	}, nil
}

func (c *client) Close() { _ = c.connection.Close() }

// call makes a request until a controller answers it, or contactTime has
// passed. The request must carry a request id, or change nothing: it may
// arrive more than once.
func call[Q proto.Message, A any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	if err := checkText(request.ProtoReflect()); err != nil {
		return *new(A), err
	}
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	started, noticed, perhapsDone := time.Now(), false, false
	var last error
	answer, err := backoff.Retry(ctx, func() (A, error) {
		answer, err := method(ctx, request)
		switch {
		case err == nil:
			return answer, nil
		case status.Code(err) != codes.Unavailable:
			return answer, backoff.Permanent(err)
		}
		last = err
		perhapsDone = perhapsDone || !neverSent(err)
		if !noticed && time.Since(started) > noticeTime {
			noticed = true
			fmt.Fprintf(c.notices, "%s: no controller answers at %s; still trying\n", c.program, format.Printable(strings.Join(c.targets, ", ")))
		}
		return answer, err
	}, backoff.WithBackOff(retryPace()), backoff.WithMaxElapsedTime(contactTime))
	switch code := status.Code(err); {
	case err == nil:
	case last != nil && (code == codes.Unavailable || ctx.Err() != nil):
		return answer, &unreachableError{targets: c.targets, cause: last, perhapsDone: perhapsDone}
	case code == codes.DeadlineExceeded:
		return answer, &unreachableError{targets: c.targets, cause: silent(contactTime), perhapsDone: true}
	}
	return answer, err
}

// neverSent says whether the request surely did not leave this machine.
func neverSent(err error) bool {
	return strings.Contains(status.Convert(err).Message(), "while dialing")
}

// silent is the cause when a controller could be reached and did not answer.
func silent(waited time.Duration) error {
	return fmt.Errorf("it does not answer: nothing came for %v", waited)
}

// plain is the server's message without gRPC's words around it, and without
// what a terminal might obey: whoever answers may not be the controller.
func plain(err error) string {
	message := status.Convert(err).Message()
	if status.Code(err) == codes.Unavailable {
		switch preface := strings.Contains(message, "preface"); {
		case preface && strings.Contains(message, "use of closed network connection"): // by ourselves, tired of waiting
			return "what listens there accepts the connection and says nothing"
		case preface, strings.Contains(message, "write: broken pipe"), strings.Contains(message, "frame too large"), strings.Contains(message, "PROTOCOL_ERROR"):
			return "what listens there does not answer as gctld does"
		}
	}
	// The innermost cause of a failed connection is what an administrator
	// needs: "connect: no such file or directory".
	if at := strings.LastIndex(message, "connect: "); at >= 0 && status.Code(err) == codes.Unavailable {
		message = strings.Trim(message[at+len("connect: "):], `"`)
	}
	var lines []string
	for line := range strings.SplitSeq(message, "\n") {
		lines = append(lines, format.Printable(line))
	}
	return strings.Join(lines, "\n")
}

func retryPace() backoff.BackOff {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval = 50 * time.Millisecond
	pace.MaxInterval = 2 * time.Second
	return pace
}

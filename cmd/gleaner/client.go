package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

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
	switch {
	case e.perhapsDone && cause != stranger:
		advice = "A controller can be reached, but none leads, or the one that does hangs: gcontrol ping shows what each of them says"
	case cause == unix.EACCES.Error():
		advice = "You may not open that socket: ask its owner, or set GLEANER_CONTROLLER, or --controller, to one that you may"
	}
	return fmt.Sprintf("%v at %s (%s)\n%s", ErrUnreachable, format.Printable(strings.Join(e.targets, ", ")), cause, advice)
}

func (e *unreachableError) Unwrap() error { return ErrUnreachable }

// client speaks to whichever controller answers.
type client struct {
	pb.ControllerClient
	controllers *dial.Controllers
	targets     []string
	limits      limits
	heard       atomic.Bool // an answer has begun: nobody waits in vain
	notices     io.Writer
	program     string
}

// connect prepares a client; it contacts nobody yet.
func connect(inv *option.Invocation) (*client, error) {
	limits, err := limitsOf(inv)
	if err != nil {
		return nil, err
	}
	targets := dial.Targets(inv.Text(option.Controller))
	controllers, err := dial.Open(targets, "")
	if err != nil {
		return nil, err
	}
	return &client{
		ControllerClient: pb.NewControllerClient(controllers), controllers: controllers,
		targets: targets, limits: limits, notices: inv.Stderr, program: inv.Command.Program(),
	}, nil
}

func (c *client) Close() { _ = c.controllers.Close() }

// call makes a request until a controller answers it, or the time for that is
// over. The request must carry a request id, or change nothing: it may arrive
// more than once.
func call[Q proto.Message, A any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return once(ctx, c, c.limits.change, method, request)
}

// once makes a request that has one answer.
func once[Q proto.Message, A any](ctx context.Context, c *client, limit searchLimit, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	var got A
	if err := checkText(request.ProtoReflect()); err != nil {
		return got, err
	}
	err := c.persist(ctx, limit, func(ctx context.Context, patience time.Duration) error {
		ctx, cancel := context.WithTimeoutCause(ctx, patience, silence(patience))
		defer cancel()
		var err error
		got, err = method(ctx, request)
		return cutOff(ctx, err)
	})
	return got, err
}

// What a failed connection says of what listens there.
const (
	unconnected = "no connection came about: what listens there says nothing, or cannot be reached"
	stranger    = "what listens there does not answer as gctld does"
)

// plain is the server's message without gRPC's words around it, and without
// what a terminal might obey: whoever answers may not be the controller.
func plain(err error) string {
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		if neverSent(err) {
			return unconnected
		}
	case codes.Unavailable:
		switch preface := strings.Contains(message, "preface"); {
		case preface && strings.Contains(message, "use of closed network connection"): // by ourselves, tired of waiting
			return unconnected
		case preface, strings.Contains(message, "write: broken pipe"), strings.Contains(message, "frame too large"), strings.Contains(message, "PROTOCOL_ERROR"):
			return stranger
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

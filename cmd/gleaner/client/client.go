// Package client is the way from a command to the controllers: it dials, asks,
// tries the next controller, keeps to the time that a command has, and renews the
// user's certificate.
//
// Call makes a change, AskOne and List put a question. Each may arrive more than
// once, so that a change carries a request id. Every wait has a deadline. What
// fails is told in Slurm's words (LoadError), with nothing in it that a terminal
// obeys. It knows no command and prints no answer.
package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
	"github.com/gleaner-hpc/gleaner/proto/munge"
)

// ErrUnreachable is returned when no controller answered in time.
var ErrUnreachable = errors.New("unable to contact a controller")

// UnreachableError says where a command looked for a controller.
type UnreachableError struct {
	Targets []string
	Cause   error
	// PerhapsDone: a controller was reached, but the connection broke before
	// it answered; whether the request took effect is not known.
	PerhapsDone bool
}

func (e *UnreachableError) Error() string {
	cause := Plain(e.Cause)
	advice := "Is gctld running there? Set GLEANER_CONTROLLER, or --controller, to where it listens"
	switch {
	case e.PerhapsDone && cause != stranger:
		advice = "A controller can be reached, but none leads, or the one that does hangs: gcontrol ping shows what each of them says"
	case strings.HasPrefix(cause, munge.RefusedWord):
		return fmt.Sprintf("%v at %s\n%s", ErrUnreachable, format.Printable(strings.Join(e.Targets, ", ")), cause)
	case cause == unix.EACCES.Error():
		advice = "You may not open that socket: ask its owner, or set GLEANER_CONTROLLER, or --controller, to one that you may"
	}
	return fmt.Sprintf("%v at %s (%s)\n%s", ErrUnreachable, format.Printable(strings.Join(e.Targets, ", ")), cause, advice)
}

func (e *UnreachableError) Unwrap() error { return ErrUnreachable }

// Client speaks to whichever controller answers.
type Client struct {
	pb.ControllerClient
	Controllers *dial.Controllers
	Targets     []string
	Limits      limits
	heard       atomic.Bool // an answer has begun
	toWait      atomic.Bool // the last answer was that this user asks too often
	Notices     io.Writer
	Program     string
	renewal     *renewal
}

// Connect prepares a client; it contacts nobody yet.
func Connect(inv *option.Invocation) (*Client, error) {
	limits, err := limitsOf(inv)
	if err != nil {
		return nil, err
	}
	targets, err := dial.Targets(inv.Text(option.Controller))
	if err != nil {
		return nil, err
	}
	controllers, err := dial.Open(targets, "")
	if err != nil {
		return nil, err
	}
	c := &Client{
		ControllerClient: pb.NewControllerClient(controllers), Controllers: controllers,
		Targets: targets, Limits: limits, Notices: inv.Stderr, Program: inv.Command.Program(),
		renewal: startRenewal(targets, time.Now()),
	}
	inv.Cluster = sync.OnceValue(func() string { return c.cluster(inv.Context) })
	return c, nil
}

// cluster is the name of the controllers' cluster, if one of them says it at once: it is
// asked for when they have answered what matters.
func (c *Client) cluster(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, PingTime)
	defer cancel()
	answer, err := c.Ping(ctx, &pb.PingRequest{})
	if err != nil {
		return ""
	}
	return answer.GetCluster()
}

// Close ends the connections, and says what the renewal of the certificate has to
// say.
func (c *Client) Close() {
	if warning := c.renewal.finish(); warning != "" {
		fmt.Fprintf(c.Notices, "%s: warning: %s\n", c.Program, format.Printable(warning))
	}
	_ = c.Controllers.Close()
}

// Call makes a request until a controller answers it, or the time for that is
// over. The request must carry a request id, or change nothing: it may arrive
// more than once.
func Call[Q proto.Message, A any](ctx context.Context, c *Client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return Once(ctx, c, c.Limits.change, method, request)
}

// Once makes a request that has one answer.
func Once[Q proto.Message, A any](ctx context.Context, c *Client, limit searchLimit, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	var got A
	if err := CheckText(request.ProtoReflect()); err != nil {
		return got, err
	}
	err := c.Persist(ctx, limit, func(ctx context.Context, patience time.Duration) error {
		ctx, cancel := context.WithTimeoutCause(ctx, patience, Silence(patience))
		defer cancel()
		var err error
		got, err = method(ctx, request)
		return CutOff(ctx, err)
	})
	return got, err
}

// What a failed connection says of what listens there.
const (
	unconnected = "no connection came about: what listens there says nothing, or cannot be reached"
	stranger    = "what listens there does not answer as gctld does"
)

// Plain is the server's message without gRPC's words around it, and without
// what a terminal might obey: whoever answers may not be the controller.
func Plain(err error) string {
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		if neverSent(err) {
			return unconnected
		}
	case codes.Unavailable:
		if why, _, refused := munge.Refusal(message); refused {
			return format.Printable(munge.RefusedWord + why)
		}
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

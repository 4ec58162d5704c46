package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Variables, so that tests need not wait as long as users may have to.
var (
	// queryTime is how long a question looks for a controller that answers.
	// Shorter than for a submission: nothing is lost, and whoever looks at a
	// queue would rather know that the controller is away.
	queryTime = 5 * time.Second
	// answerTime is how long a controller that was reached has for the first
	// word of its answer: it looks things up in memory, so that one which takes
	// longer hangs.
	answerTime = 15 * time.Second
	// silenceTime is how long a list may stand still before it is given up.
	silenceTime = 60 * time.Second
)

// Slurm's names for what a client was doing when it failed; tools look for
// them in the messages.
const (
	loadJobs       = "slurm_load_jobs error"
	loadNodes      = "slurm_load_node error"
	loadPartitions = "slurm_load_partitions"
	loadConfig     = "slurm_load_ctl_conf error"
)

// interrupted is the exit status of a command that the user interrupted.
const interrupted = 128 + int(syscall.SIGINT)

// ask puts a question that may be put again, until a controller answers or
// queryTime has passed. What it returns after a partial answer it wraps with
// backoff.Permanent. One that is cut off because nothing came returns silent
// as the cause of its context.
func (c *client) ask(ctx context.Context, question func(context.Context) error) error {
	search, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var last error
	_, err := backoff.Retry(search, func() (struct{}, error) {
		err := question(ctx)
		var final *backoff.PermanentError
		if err == nil || errors.As(err, &final) {
			return struct{}{}, err
		}
		if status.Code(err) != codes.Unavailable {
			return struct{}{}, backoff.Permanent(err)
		}
		last = err
		return struct{}{}, err
	}, backoff.WithBackOff(retryPace()), backoff.WithMaxElapsedTime(queryTime))
	if unreachable := (*unreachableError)(nil); errors.As(err, &unreachable) {
		return err
	}
	if err != nil && last != nil && (status.Code(err) == codes.Unavailable || search.Err() != nil) {
		return &unreachableError{targets: c.targets, cause: last}
	}
	return err
}

// list reads a whole stream of answers, each as it comes.
func list[Q proto.Message, M any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error),
	request Q, each func(*M) error) error {
	if err := checkText(request.ProtoReflect()); err != nil {
		return err
	}
	return c.ask(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		giveUpAfter := func(limit time.Duration) *time.Timer {
			return time.AfterFunc(limit, func() { cancel(silent(limit)) })
		}
		silence := giveUpAfter(answerTime)
		defer func() { silence.Stop() }()
		stream, err := method(ctx, request)
		if err != nil {
			return err
		}
		for begun := false; ; begun = true {
			message, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil && ctx.Err() != nil:
				return c.gaveUp(ctx)
			case err != nil && begun:
				return backoff.Permanent(err)
			case err != nil:
				return err
			}
			silence.Stop()
			silence = giveUpAfter(silenceTime)
			if err := each(message); err != nil {
				return backoff.Permanent(err)
			}
		}
	})
}

// gaveUp is the error of a question that was cut off: what cut it.
func (c *client) gaveUp(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) {
		return backoff.Permanent(cause)
	}
	return backoff.Permanent(&unreachableError{targets: c.targets, cause: cause})
}

// askOne puts a question that has one answer.
func askOne[Q proto.Message, A any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	var got A
	err := c.ask(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, answerTime, silent(answerTime))
		defer cancel()
		var err error
		if got, err = method(ctx, request); err != nil && ctx.Err() != nil {
			return c.gaveUp(ctx)
		}
		return err
	})
	return got, err
}

// listNodes asks for nodes and keeps them in the order of their names.
func (c *client) listNodes(ctx context.Context, request *pb.ListNodesRequest) ([]*pb.Node, error) {
	var nodes []*pb.Node
	err := list(ctx, c, c.ListNodes, request, func(answer *pb.ListNodesResponse) error {
		nodes = append(nodes, answer.Nodes...)
		return nil
	})
	return nodes, err
}

// listPartitions asks for all partitions.
func (c *client) listPartitions(ctx context.Context) ([]*pb.Partition, error) {
	listed, err := askOne(ctx, c, c.ListPartitions, &pb.ListPartitionsRequest{})
	return listed.GetPartitions(), err
}

// loadError says that a question failed, in Slurm's words, and ends the
// command with status 1. What Slurm does not say, where a controller was
// looked for, follows.
func loadError(inv *option.Invocation, what string, err error) error {
	if inv.Context.Err() != nil {
		return option.Exit(interrupted)
	}
	var unreachable *unreachableError
	if errors.As(err, &unreachable) {
		fmt.Fprintf(inv.Stderr, "%s: Unable to contact slurm controller (connect failure)\n", what)
		for line := range strings.SplitSeq(unreachable.Error(), "\n") {
			fmt.Fprintf(inv.Stderr, "%s: %s\n", inv.Command.Program(), line)
		}
		return option.Exit(1)
	}
	if _, fromServer := status.FromError(err); !fromServer {
		return err
	}
	fmt.Fprintf(inv.Stderr, "%s: %s\n", what, format.Printable(plain(err)))
	return option.Exit(1)
}

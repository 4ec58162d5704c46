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
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// silenceTime is how long a list may stand still before it is given up. A
// variable, so that tests need not wait as long as users may have to.
var silenceTime = 60 * time.Second

// Slurm's names for what a client was doing when it failed; tools look for
// them in the messages.
const (
	loadJobs       = "slurm_load_jobs error"
	loadNodes      = "slurm_load_node error"
	loadPartitions = "slurm_load_partitions"
	loadConfig     = "slurm_load_ctl_conf error"
	loadTopology   = "slurm_load_topo error"
	loadLicenses   = "slurm_load_licenses error"
	loadAssocMgr   = "slurm_load_assoc_mgr_info error"
)

// interrupted is the exit status of a command that the user interrupted.
const interrupted = 128 + int(syscall.SIGINT)

// list reads a whole stream of answers, each as it comes. If it breaks off,
// anew is asked whether what came may be forgotten, because nobody has seen it
// yet, and forgets it; then the list is asked for again.
func list[Q proto.Message, M any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error),
	request Q, anew func() bool, each func(*M) error) error {
	if err := checkText(request.ProtoReflect()); err != nil {
		return err
	}
	return c.persist(ctx, c.limits.question, func(ctx context.Context, patience time.Duration) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		giveUpAfter := func(limit time.Duration) *time.Timer {
			return time.AfterFunc(limit, func() { cancel(silence(limit)) })
		}
		quiet := giveUpAfter(patience)
		defer func() { quiet.Stop() }()
		stream, err := method(ctx, request)
		if err != nil {
			return cutOff(ctx, err)
		}
		for begun := false; ; begun = true {
			message, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil && begun && !anew():
				return backoff.Permanent(c.broken(cutOff(ctx, err)))
			case err != nil:
				return cutOff(ctx, err)
			}
			c.heard.Store(true)
			quiet.Stop()
			quiet = giveUpAfter(silenceTime)
			if err := each(message); err != nil {
				return backoff.Permanent(err)
			}
		}
	})
}

// broken is the error of a list of which a part was shown.
func (c *client) broken(err error) error {
	if isSilence(err) {
		return &unreachableError{targets: c.targets, cause: err}
	}
	return err
}

// shown is for lists that are shown as they come: one that broke off cannot
// begin anew.
func shown() bool { return false }

// askOne puts a question that has one answer.
func askOne[Q proto.Message, A any](ctx context.Context, c *client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return once(ctx, c, c.limits.question, method, request)
}

// listNodes asks for nodes and keeps them in the order of their names.
func (c *client) listNodes(ctx context.Context, request *pb.ListNodesRequest) ([]*pb.Node, error) {
	var nodes []*pb.Node
	anew := func() bool { nodes = nil; return true }
	err := list(ctx, c, c.ListNodes, request, anew, func(answer *pb.ListNodesResponse) error {
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

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// SilenceTime is how long a list may pause before it is given up. A variable,
// so that tests need not wait as long as users may have to.
var SilenceTime = 60 * time.Second

// Slurm's names for what a client was doing when it failed; tools look for
// them in the messages.
const (
	LoadJobs       = "slurm_load_jobs error"
	LoadNodes      = "slurm_load_node error"
	LoadPartitions = "slurm_load_partitions"
	LoadConfig     = "slurm_load_ctl_conf error"
	LoadTopology   = "slurm_load_topo error"
	LoadLicenses   = "slurm_load_licenses error"

	LoadReservations = "slurm_load_reservations error"
	LoadAssocMgr     = "slurm_load_assoc_mgr_info error"
)

// List reads a whole stream of answers, each as it comes. If the stream breaks
// off, restart drops what came and returns true, and the list is asked for
// again. It returns false if some of it was shown already.
func List[Q proto.Message, M any](ctx context.Context, c *Client, method func(context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error),
	request Q, restart func() bool, each func(*M) error) error {
	if err := CheckText(request.ProtoReflect()); err != nil {
		return err
	}
	return c.Persist(ctx, c.Limits.Question, func(ctx context.Context, patience time.Duration) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		giveUpAfter := func(limit time.Duration) *time.Timer {
			return time.AfterFunc(limit, func() { cancel(Silence(limit)) })
		}
		quiet := giveUpAfter(patience)
		defer func() { quiet.Stop() }()
		stream, err := method(ctx, request)
		if err != nil {
			return CutOff(ctx, err)
		}
		for begun := false; ; begun = true {
			message, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil && begun && !restart():
				return backoff.Permanent(c.broken(CutOff(ctx, err)))
			case err != nil:
				return CutOff(ctx, err)
			}
			c.heard.Store(true)
			quiet.Stop()
			quiet = giveUpAfter(SilenceTime)
			if err := each(message); err != nil {
				return backoff.Permanent(err)
			}
		}
	})
}

// broken is the error of a list that was partly shown.
func (c *Client) broken(err error) error {
	if IsSilence(err) {
		return &UnreachableError{Targets: c.Targets, Cause: err}
	}
	return err
}

// Shown is for lists that are shown as they come: one that broke off cannot
// start over.
func Shown() bool { return false }

// AskOne puts a question that has one answer.
func AskOne[Q proto.Message, A any](ctx context.Context, c *Client, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return Once(ctx, c, c.Limits.Question, method, request)
}

// Nodes asks for nodes and keeps them in the order of their names.
func (c *Client) Nodes(ctx context.Context, request *pb.ListNodesRequest) ([]*pb.Node, error) {
	var nodes []*pb.Node
	restart := func() bool { nodes = nil; return true }
	err := List(ctx, c, c.ListNodes, request, restart, func(answer *pb.ListNodesResponse) error {
		nodes = append(nodes, answer.Nodes...)
		return nil
	})
	return nodes, err
}

// Partitions asks for all partitions.
func (c *Client) Partitions(ctx context.Context) ([]*pb.Partition, error) {
	listed, err := AskOne(ctx, c, c.ListPartitions, &pb.ListPartitionsRequest{})
	return listed.GetPartitions(), err
}

// LoadError says that a question failed, in Slurm's words, and ends the
// command with status 1. What Slurm does not say, where a controller was
// looked for, follows.
func LoadError(inv *option.Invocation, what string, err error) error {
	if inv.Context.Err() != nil {
		return option.Exit(console.Interrupted)
	}
	var unreachable *UnreachableError
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
	fmt.Fprintf(inv.Stderr, "%s: %s\n", what, format.Printable(Plain(err)))
	return option.Exit(1)
}

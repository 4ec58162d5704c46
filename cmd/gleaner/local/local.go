// Package local is the way from a command to the node daemon of the very machine on which
// it is typed: no controller is asked, so it works with every one of them away. The kernel
// tells the daemon who calls. Every call has a deadline.
package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// EnvironmentNode says where the daemon listens; %n in it is the name of the node.
	EnvironmentNode = "GLEANER_NODED"
	defaultTarget   = "unix:///run/gleaner/gnoded.sock"

	// callLimit bounds one call: the daemon answers in milliseconds, and a name service
	// that it may have to ask about the caller in seconds.
	callLimit = 10 * time.Second
)

// Option is --local in the table of a command.
func Option(help string) option.Option { return option.Option{Long: "local", Help: help} }

// Variable explains the environment variable.
func Variable() option.Variable {
	return option.Variable{Name: EnvironmentNode, Help: "where --local finds gnoded (" + defaultTarget + "); %n in it is the node's name"}
}

// Node is the daemon of this machine.
type Node struct {
	api        pb.NodeOwnerClient
	connection *grpc.ClientConn
	target     string
}

// Names reads the operand of a command with --local: the node's name, or nothing.
func Names(inv *option.Invocation) (string, error) {
	switch {
	case inv.Given("mine"):
		return "", inv.Fail("--local is the node on which you type, and --mine all nodes of your accounts: leave one out")
	case inv.Given("gpus"):
		return "", inv.Fail("--gpus needs a controller, which chooses the guests that lose least: with --local the whole node is taken")
	case len(inv.Operands) > 1:
		return "", inv.Fail("Unrecognized option: %s\n--local is the node on which you type: name it, or no node", inv.Operands[1])
	case len(inv.Operands) == 1:
		return inv.Operands[0], nil
	}
	return "", nil
}

// Connect prepares a client; it contacts nobody yet.
func Connect(inv *option.Invocation, name string) (*Node, error) {
	target := inv.Getenv(EnvironmentNode)
	if target == "" {
		target = defaultTarget
	}
	if strings.Contains(target, "%n") {
		if name == "" {
			return nil, inv.Fail("this machine has several nodes: name the one that is meant, as in %s --local n1", inv.Command.Program())
		}
		if strings.ContainsAny(name, "/%") {
			return nil, inv.Fail("Invalid node name specified: %q", name)
		}
		target = strings.ReplaceAll(target, "%n", name)
	}
	path, isSocket := strings.CutPrefix(target, "unix://")
	if !isSocket || !strings.HasPrefix(path, "/") {
		return nil, inv.Fail("%s=%s: use unix:///PATH", EnvironmentNode, target)
	}
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &Node{pb.NewNodeOwnerClient(connection), connection, target}, nil
}

// Close ends the connection.
func (n *Node) Close() { _ = n.connection.Close() }

// Reclaim takes the node back.
func (n *Node) Reclaim(ctx context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	return call(ctx, n, n.api.Reclaim, request)
}

// Release lends it again.
func (n *Node) Release(ctx context.Context, request *pb.ReleaseNodesRequest) (*pb.ReleaseNodesResponse, error) {
	return call(ctx, n, n.api.Release, request)
}

// Nodes answers the node with the reclaim that was made on it.
func (n *Node) Nodes(ctx context.Context, _ string) ([]*pb.Node, error) {
	node, err := call(ctx, n, n.api.Show, &pb.ShowOwnedRequest{})
	if err != nil {
		return nil, err
	}
	return []*pb.Node{node}, nil
}

func call[Q, A any](ctx context.Context, n *Node, method func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	answer, err := method(ctx, request)
	return answer, n.explain(err)
}

// explain says of a daemon that does not answer where it was looked for.
func (n *Node) explain(err error) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unavailable, codes.DeadlineExceeded:
		why := client.Plain(err)
		if _, missing := os.Stat(strings.TrimPrefix(n.target, "unix://")); os.IsNotExist(missing) {
			why = "there is no such socket"
		}
		return fmt.Errorf("no gnoded answers at %s (%s): --local works on the node itself; see systemctl status gnoded there, and %s", format.Printable(n.target), why, EnvironmentNode)
	}
	return err
}

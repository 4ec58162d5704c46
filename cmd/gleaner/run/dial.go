package run

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// stepDialer reaches process 1 of each node's container: directly on the node
// that grun runs on; on the others in the network that the job has between its nodes, or
// else through a tunnel.
type stepDialer struct {
	shape      *jobShape
	controller string // --controller; "" = as the environment says
	connection *grpc.ClientConn
}

// dial opens a connection. It ends with ctx.
func (d *stepDialer) dial(ctx context.Context, node string) (*step.Client, error) {
	if node == d.shape.thisNode {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "unix", d.shape.socket)
		if err != nil {
			return nil, fmt.Errorf("unable to contact process 1 of this job: %w", err)
		}
		return step.NewClient(connection), nil
	}
	if d.shape.port != "" {
		// A connection in the job's own network is saved with the job, and moves with it.
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(node, d.shape.port))
		if err != nil {
			return nil, fmt.Errorf("unable to contact process 1 of this job on node %s: %w", node, err)
		}
		return step.NewClient(connection), nil
	}
	if d.connection == nil {
		targets, err := dial.Targets(d.controller)
		if err != nil {
			return nil, err
		}
		if d.connection, err = dial.Dial(targets, ""); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := pb.NewNodeLinkClient(d.connection).Tunnel(ctx, grpc.WaitForReady(true))
	if err == nil {
		err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{TargetNode: node}}})
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("unable to open a tunnel to %s: %s", node, client.Plain(err))
	}
	return step.NewClient(&session.Tunnel{Stream: stream, Cancel: cancel}), nil
}

func (d *stepDialer) close() {
	if d.connection != nil {
		_ = d.connection.Close()
	}
}

// within runs what may hang on a connection, and closes it if it takes longer
// than allowed.
func within(allowed time.Duration, client *step.Client, what func() error) error {
	timer := time.AfterFunc(allowed, func() { _ = client.Close() })
	err := what()
	if !timer.Stop() && err != nil {
		return fmt.Errorf("no answer within %s", allowed)
	}
	return err
}

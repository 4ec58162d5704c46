package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// maxTunnelData is the most bytes of one TunnelMessage.
const maxTunnelData = 256 << 10

// stepDialer reaches process 1 of each node's container: directly on the node
// that grun runs on, through a tunnel on the others.
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
	if d.connection == nil {
		var err error
		if d.connection, err = dial.Dial(dial.Targets(d.controller), ""); err != nil {
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
		return nil, fmt.Errorf("unable to open a tunnel to %s: %s", node, plain(err))
	}
	return step.NewClient(&tunnel{stream: stream, cancel: cancel}), nil
}

func (d *stepDialer) close() {
	if d.connection != nil {
		_ = d.connection.Close()
	}
}

// tunnel is the stream of a tunnel as a plain connection.
type tunnel struct {
	stream grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage]
	cancel context.CancelFunc
	unread []byte
}

func (t *tunnel) Read(p []byte) (int, error) {
	for len(t.unread) == 0 {
		message, err := t.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, errors.New(plain(err))
		}
		if message.GetHalfClose() {
			return 0, io.EOF
		}
		t.unread = message.GetData()
	}
	n := copy(p, t.unread)
	t.unread = t.unread[n:]
	return n, nil
}

func (t *tunnel) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		part := p[written:min(len(p), written+maxTunnelData)]
		if err := t.stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: part}}); err != nil {
			return written, errors.New(plain(err))
		}
		written += len(part)
	}
	return written, nil
}

// Close ends both directions at once; unlike CloseSend it may be called while
// a Write is under way.
func (t *tunnel) Close() error {
	t.cancel()
	return nil
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

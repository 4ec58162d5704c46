package shim

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// tunnelBytes is how much of the stream goes into one message.
const tunnelBytes = 64 << 10

// joinTunnel joins a tunnel that another node of the job has asked for, for a
// new line to process 1 of this part or for one whose tunnel broke; or that a
// client has asked for from outside. It returns when the tunnel is open; the
// bytes flow after that.
func (p *part) joinTunnel(ctx context.Context, request *pb.Connect) error {
	if partID(request.Part) != p.dir.id() {
		return status.Errorf(codes.NotFound, "this is part %s, not %s", p.dir.id(), partID(request.Part))
	}
	if request.Client {
		return p.joinSession(ctx, request)
	}
	if request.Line == "" {
		return status.Error(codes.InvalidArgument, "the node that opens the tunnel runs an older gnoded, which keeps nothing of what it sends: upgrade it")
	}
	l, err := p.lineFor(ctx, request.Line, request.Again)
	if err != nil {
		return err
	}
	controller, closeController, err := p.tunnelController(request.Controller)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	streamContext, cancel := context.WithCancel(p.relay.vouch(p.relay.context))
	end := func() {
		cancel()
		closeController()
	}
	stream, err := pb.NewNodeLinkClient(controller).Tunnel(streamContext)
	if err == nil {
		err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{
			Part: p.order.Part, FromNode: p.order.Node, Channel: request.Channel,
		}}})
	}
	if err != nil {
		end()
		return status.Errorf(codes.Unavailable, "open the tunnel: %v", err)
	}
	go func() {
		defer end()
		if l == nil { // it was given up here: the other end must not wait
			_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Abandoned{Abandoned: true}})
			_ = stream.CloseSend()
			_, _ = stream.Recv()
			return
		}
		p.carryLine(streamContext, request.Line, l, stream)
	}()
	return nil
}

// tunnelController answers the controller that joins the tunnel.
func (p *part) tunnelController(address string) (grpc.ClientConnInterface, func(), error) {
	if address == "" {
		conn, err := p.relay.controller()
		return conn, func() {}, err
	}
	conn, err := dial.Dial([]string{address}, p.settings.TLSDir)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { conn.Close() }, nil
}

package relay

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

// Join joins a tunnel that another node of the job has asked for, for a new step
// stream to process 1 of this allocation or for one whose tunnel broke; or that a
// client has asked for from outside. It returns when the tunnel is open; the
// bytes flow after that.
func (r *Relay) Join(ctx context.Context, request *pb.Connect) error {
	if request.Client {
		return r.joinSession(ctx, request)
	}
	if request.NetworkFrom != 0 {
		return r.joinPackets(request)
	}
	if request.Line == "" {
		return status.Error(codes.InvalidArgument, "the tunnel names no step stream")
	}
	s, err := r.streamFor(ctx, request.Line, request.Again)
	if err != nil {
		return err
	}
	tunnelContext, cancel := context.WithCancel(r.context)
	stream, closeTunnel, err := r.joinTunnel(tunnelContext, request)
	if err != nil {
		cancel()
		return err
	}
	go func() {
		defer closeTunnel()
		defer cancel()
		if s == nil { // it was given up here: the other end must not wait
			_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Abandoned{Abandoned: true}})
			_ = stream.CloseSend()
			_, _ = stream.Recv()
			return
		}
		r.carryStream(tunnelContext, request.Line, s, stream)
	}()
	return nil
}

// joinTunnel opens this allocation's end of a tunnel, at the controller that joins
// its ends.
func (r *Relay) joinTunnel(ctx context.Context, request *pb.Connect) (_ grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage], closeTunnel func(), err error) {
	controller, closeController, err := r.tunnelController(request.Controller)
	if err != nil {
		return nil, nil, status.Error(codes.Unavailable, err.Error())
	}
	stream, err := r.openTunnel(ctx, controller, &pb.TunnelOpen{Channel: request.Channel})
	if err != nil {
		closeController()
		return nil, nil, status.Errorf(codes.Unavailable, "open the tunnel: %v", err)
	}
	return stream, closeController, nil
}

// tunnelController answers the controller that joins the tunnel.
func (r *Relay) tunnelController(address string) (grpc.ClientConnInterface, func(), error) {
	if address == "" {
		conn, err := r.controller()
		return conn, func() {}, err
	}
	conn, err := dial.Dial([]string{address}, r.Settings.TLSDir)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { conn.Close() }, nil
}

// PacketTunnel is a tunnel whose messages are packets.
type PacketTunnel interface {
	Send(*pb.TunnelMessage) error
	Recv() (*pb.TunnelMessage, error)
}

// joinPackets joins a tunnel for packets of the job's network.
func (r *Relay) joinPackets(request *pb.Connect) error {
	if r.Packets == nil {
		return status.Error(codes.FailedPrecondition, "the job has no network between its nodes")
	}
	give, err := take(r.tunnels)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.context)
	stream, closeTunnel, err := r.joinTunnel(ctx, request)
	if err != nil {
		cancel()
		give()
		return err
	}
	go func() {
		defer give()
		defer closeTunnel()
		defer cancel()
		r.Packets(ctx, int(request.NetworkFrom-1), stream)
	}()
	return nil
}

package shim

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// tunnelBytes is how much of the stream goes into one message.
const tunnelBytes = 64 << 10

type tunnelStream = grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage]

// joinTunnel connects process 1 of this part to a tunnel that another node of
// the job has asked for. It returns when both ends are joined; the bytes flow
// after that.
func (p *part) joinTunnel(ctx context.Context, request *pb.Connect) error {
	if partID(request.Part) != p.dir.id() {
		return status.Errorf(codes.NotFound, "this is part %s, not %s", p.dir.id(), partID(request.Part))
	}
	release, err := take(p.relay.tunnels)
	if err != nil {
		return err
	}
	conn, err := dialJobSocket(ctx, p.dir.path(runDir, pid1.StepSocket), p.user.UID)
	if err != nil {
		release()
		return status.Errorf(codes.Unavailable, "reach process 1 of the job: %v", err)
	}
	controller, closeController, err := p.tunnelController(request.Controller)
	if err != nil {
		conn.Close()
		release()
		return status.Error(codes.Unavailable, err.Error())
	}
	streamContext, cancel := context.WithCancel(p.relay.vouch(p.relay.context))
	end := func() {
		cancel()
		conn.Close()
		closeController()
		release()
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
		pump(conn, stream)
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

// pump copies bytes both ways until the stream ends, which it does when the
// other end has closed. A local end that takes no more is no reason to leave:
// what it said last may still be on its way, and ending the stream would cut
// it off.
func pump(conn net.Conn, stream tunnelStream) {
	go func() {
		buffer := make([]byte, tunnelBytes)
		for {
			n, err := conn.Read(buffer)
			if n > 0 {
				data := append([]byte(nil), buffer[:n]...)
				if stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: data}}) != nil {
					return
				}
			}
			if err != nil {
				_ = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
				_ = stream.CloseSend()
				return
			}
		}
	}()
	deaf := false
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		switch what := m.What.(type) {
		case *pb.TunnelMessage_Data:
			if !deaf {
				_, err := conn.Write(what.Data)
				deaf = err != nil
			}
		case *pb.TunnelMessage_HalfClose:
			if half, ok := conn.(*net.UnixConn); ok {
				_ = half.CloseWrite()
			}
		}
	}
}

package noded

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// refusePatience bounds telling a client why it cannot attach.
const refusePatience = 5 * time.Second

// attachClient asks an allocation's supervisor to join the tunnel of a client that
// attaches, and tells the client if it does not.
func (a *agent) attachClient(ctx context.Context, s *session, p *alloc, shim supervisor, order *pb.Connect) {
	order = proto.CloneOf(order)
	order.Controller = s.target
	order.Measured = nil // only this node says what it has measured
	if order.GetUse() {
		order.Measured = a.machine.use.now(registry.KeyOf(order.GetAlloc()))
	}
	if !s.tunnels.TryAcquire(1) {
		a.log.Warn("too many tunnels are being made at once: this one is refused", "most", maxTunnels)
		return
	}
	refuse := func(err error) {
		if err != nil {
			a.refuseClient(ctx, order, err)
		}
	}
	a.tending.Go(func() {
		defer s.tunnels.Release(1)
		if shim == nil {
			refuse(status.Error(codes.Unavailable, "the job does not run here, or not yet"))
			return
		}
		p.run(ctx, shim, call{name: "attach a client", then: refuse, do: func(ctx context.Context, client pb.ShimClient) error {
			_, err := client.JoinTunnel(ctx, order)
			return err
		}})
	})
}

// refuseClient joins a tunnel only to say why nobody else does.
func (a *agent) refuseClient(ctx context.Context, order *pb.Connect, why error) {
	ctx, cancel := context.WithTimeout(ctx, refusePatience)
	defer cancel()
	connection, err := dial.Dial([]string{order.Controller}, a.machine.config.TLSDir)
	if err != nil {
		return // who asked hears nothing in time, and asks again
	}
	defer connection.Close()
	tunnel, err := pb.NewNodeLinkClient(connection).Tunnel(ctx)
	if err != nil {
		return
	}
	for _, message := range []*pb.TunnelMessage{
		{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Alloc: order.Alloc, FromNode: a.machine.config.Name, Channel: order.Channel}}},
		{What: &pb.TunnelMessage_Refused{Refused: &pb.Refused{Reason: registry.Words(userMessage(why)), Later: worthTrying(why)}}},
		{What: &pb.TunnelMessage_HalfClose{HalfClose: true}},
	} {
		if tunnel.Send(message) != nil {
			return // Recv would say why; the client finds out by itself
		}
	}
	_ = tunnel.CloseSend()
	for {
		if _, err := tunnel.Recv(); err != nil {
			return // the client has it, and has left
		}
	}
}

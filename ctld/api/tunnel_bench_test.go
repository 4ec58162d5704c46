package api

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// joining joins the first two tunnels that come.
type joining struct {
	pb.UnimplementedNodeLinkServer
	tunnels *tunnels
}

func (j *joining) Tunnel(stream pb.NodeLink_TunnelServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	for first.GetOpen().GetChannel() != "" {
		if c, found := j.tunnels.join("c", session.Alloc{}, "", ""); found {
			c.second <- stream
			<-c.over
			return nil
		}
		time.Sleep(time.Millisecond) // until the other end is there
	}
	c := &channel{second: make(chan tunnelStream, 1), over: make(chan struct{})}
	return j.tunnels.joined(stream, "c", c, func() {})
}

// BenchmarkTunnel carries bytes from one connection to another, as an image's are, all
// three ends in this process: its processor time is that of all of them.
func BenchmarkTunnel(b *testing.B) {
	const message = maxTunnelBytes
	listener, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(passon.Codec{}), grpc.ReadBufferSize(connectionBuffer))
	pb.RegisterNodeLinkServer(server, &joining{tunnels: newTunnels(make(chan struct{}), func(uint32) uint32 { return 0 })})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	open := func(channel string) pb.NodeLink_TunnelClient {
		conn, err := grpc.NewClient("unix:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		stream, err := pb.NewNodeLinkClient(conn).Tunnel(b.Context(), grpc.ForceCodecV2(passon.Codec{}))
		if err == nil {
			err = stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Open{Open: &pb.TunnelOpen{Channel: channel}}})
		}
		if err != nil {
			b.Fatal(err)
		}
		return stream
	}
	to := open("")
	from := open("c")
	b.SetBytes(message)
	b.ResetTimer()
	go func() {
		data := make([]byte, message)
		for range b.N {
			if from.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: data}}) != nil {
				return
			}
		}
		_ = from.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}})
	}()
	for got := 0; ; got++ {
		raw := new(passon.Message)
		if err := to.RecvMsg(raw); errors.Is(err, io.EOF) || err == nil && raw.Len() < message {
			if got < b.N {
				b.Fatalf("%d messages of %d came", got, b.N)
			}
			return
		} else if err != nil {
			b.Fatal(err)
		}
		raw.Reader().Close()
	}
}

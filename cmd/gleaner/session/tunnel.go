package session

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Tunnel is the stream of a tunnel as a plain connection.
type Tunnel struct {
	Stream grpc.BidiStreamingClient[pb.TunnelMessage, pb.TunnelMessage]
	Cancel context.CancelFunc
	unread []byte
}

func (t *Tunnel) Read(p []byte) (int, error) {
	for len(t.unread) == 0 {
		message, err := t.Stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, errors.New(client.Plain(err))
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

func (t *Tunnel) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		part := p[written:min(len(p), written+maxTunnelData)]
		if err := t.Stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: part}}); err != nil {
			return written, errors.New(client.Plain(err))
		}
		written += len(part)
	}
	return written, nil
}

// Close ends both directions at once; unlike CloseSend it may be called while
// a Write is under way.
func (t *Tunnel) Close() error {
	t.Cancel()
	return nil
}

// maxTunnelData is the most bytes of one TunnelMessage.
const maxTunnelData = 256 << 10

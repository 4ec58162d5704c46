package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// attachTime is how long the controllers, and then the job's node, have to
// answer. A variable for tests.
var attachTime = 15 * time.Second

// partTime is how long a last word may take.
const partTime = 2 * time.Second

// refusedError is why a job's node lets nobody attach.
type refusedError struct {
	reason string
	later  bool
}

func (e *refusedError) Error() string { return e.reason }

// sessionStream is a connection to process 1 of a job.
type sessionStream struct {
	Tunnel
	measured *pb.NodeSteps // by the job's node, if that was asked; nil = nothing
}

// openSession asks a controller to join this client with a job.
func openSession(ctx context.Context, c *client.Client, attach *pb.Attach) (*sessionStream, *pb.Attached, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(attachTime, func() { cancel(client.Silence(attachTime)) })
	defer late.Stop()
	fail := func(err error) (*sessionStream, *pb.Attached, error) {
		err = client.CutOff(ctx, err)
		if client.IsSilence(err) {
			c.Controllers.Leave()
		}
		cancel(nil)
		return nil, nil, err
	}
	stream, err := c.Attach(ctx)
	if err != nil {
		return fail(err)
	}
	if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attach{Attach: attach}}); err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	answer, err := stream.Recv() // also says why Send failed
	if err != nil {
		return fail(err)
	}
	return &sessionStream{Tunnel: Tunnel{Stream: stream, Cancel: func() { cancel(nil) }}}, answer.GetAttached(), nil
}

// Read implements io.Reader: as a tunnel, but that a refusal may come.
func (s *sessionStream) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		message, err := s.Stream.Recv()
		if err != nil {
			return 0, err
		}
		if refused := message.GetRefused(); refused != nil {
			return 0, &refusedError{format.Printable(refused.GetReason()), refused.GetLater()}
		}
		if message.GetHalfClose() {
			return 0, io.EOF
		}
		if message.GetMeasured() != nil {
			s.measured = message.GetMeasured()
		}
		s.unread = message.GetData()
	}
	return s.Tunnel.Read(p)
}

// begin puts the first question, and gives up when no answer comes.
func (s *sessionStream) begin(at *step.Attachment, ask step.Message) (*step.Attached, error) {
	late := time.AfterFunc(attachTime, func() { _ = s.Close() })
	hello, err := at.Begin(ask)
	if !late.Stop() && err != nil {
		err = client.Silence(attachTime)
	}
	return hello, err
}

// CloseWrite says that nothing more will be sent. It is not called while
// something is.
func (s *sessionStream) CloseWrite() error {
	if err := s.Stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_HalfClose{HalfClose: true}}); err != nil {
		return err
	}
	return s.Stream.CloseSend()
}

package clienttest

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// OutputVisit plays one request for a job's output: what is sent, and how it ends. Then, if
// set, is called before it ends.
type OutputVisit struct {
	Send []*pb.TunnelMessage
	End  error
	Then func(*StubController)
}

// Attach plays the visits of Outputs one after the other, and remembers what was asked.
func (s *StubController) Attach(stream pb.Controller_AttachServer) error {
	message, err := stream.Recv()
	if err != nil {
		return err
	}
	asked := message.GetAttach()
	s.wrote(asked)
	s.mutex.Lock()
	var visit OutputVisit
	if len(s.Outputs) == 0 {
		visit.End = status.Error(codes.Internal, "the test expects no further visit")
	} else {
		visit, s.Outputs = s.Outputs[0], s.Outputs[1:]
	}
	s.mutex.Unlock()
	if visit.Then != nil {
		defer visit.Then(s)
	}
	for _, message := range visit.Send {
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	return visit.End
}

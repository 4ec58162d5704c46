package clienttest

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// OutputVisit plays one request for a job's output, or to process 1: what is sent, and how it ends. Then, if
// set, is called before it ends.
type OutputVisit struct {
	Send []*pb.TunnelMessage
	// Question: what comes after the first message answers one of the client.
	Question bool
	End      error
	Then     func(*StubController)
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
	for i, message := range visit.Send {
		if i == 1 && visit.Question {
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		if err := stream.Send(message); err != nil {
			return err
		}
	}
	return visit.End
}

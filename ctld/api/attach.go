package api

import (
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Attach joins a client with process 1 of a job, as Tunnel joins two nodes. The
// steps that a client has there are process 1's: nothing of them is known here.
func (s *Server) Attach(stream pb.Controller_AttachServer) error {
	message, err := firstMessage(stream.Context(), stream.Recv)
	if err != nil {
		return err
	}
	attach := message.GetAttach()
	if attach.GetJob().GetJob() == 0 {
		return invalid("Invalid job id specified: the first message must name a job")
	}
	from, err := s.mustBeUser(stream.Context())
	if err == nil {
		err = s.confirm(stream.Context())
	}
	if err != nil {
		return err
	}
	job, err := s.attachable(from, attach.GetJob())
	if err != nil {
		return err
	}
	part, node := session.Part{Job: job.ID, Epoch: job.Epoch}, job.Run.BatchHost()
	link := s.loops.Sessions().Get(node)
	switch {
	case link == nil:
		return status.Errorf(codes.Unavailable, "node %s, on which job %d runs, is not connected to this controller", node, job.ID)
	case !link.TakesClients():
		return status.Errorf(codes.Unimplemented, "node %s runs an older gnoded, which lets nobody attach to its jobs: upgrade it", node)
	}
	name := uuid.NewString()
	c := &channel{part: part, target: node, second: make(chan tunnelStream, 1), over: make(chan struct{})}
	if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Part: part.ID(), Node: node}}}); err != nil {
		return err
	}
	return s.joined(stream, name, c, func() {
		link.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{
			Part: part.ID(), Channel: name, Client: true}}})
	})
}

// attachable answers a job that the caller may attach to, and that runs. A job
// acts as its user, in jobs of root's too, but never as root.
func (s *Server) attachable(from *caller, id *pb.JobId) (*state.Job, error) {
	found := resolve(s.cluster.View(), idTargets([]*pb.JobId{id})[0])
	job := found[0].job
	switch {
	case job == nil:
		return nil, status.Error(codes.NotFound, "Invalid job id specified")
	case job.Owner().UID != from.uid && !from.isRoot():
		return nil, status.Error(codes.PermissionDenied, "Access/permission denied: only the user of a job, and root, may attach to it")
	case len(found) > 1:
		return nil, invalid("job %d is an array: name one of its tasks, as in %d_1", id.GetJob(), id.GetJob())
	case job.Suspended():
		return nil, status.Error(codes.FailedPrecondition, "Job is suspended")
	case job.Phase == state.Running:
		return job, nil
	case job.Phase == state.Waiting:
		return nil, status.Error(codes.FailedPrecondition, "Job is pending execution")
	}
	return nil, status.Error(codes.FailedPrecondition, "Job/step already completing or completed")
}

var _ tunnelStream = (pb.Controller_AttachServer)(nil)

package api

import (
	"cmp"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Attach joins a client with process 1 of a job, as Tunnel joins two nodes.
// Process 1 starts the client's steps; the controller knows nothing of them.
func (s *Controller) Attach(stream pb.Controller_AttachServer) error {
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
	if attach.GetOutput() != nil {
		return s.readOutput(stream, from, attach)
	}
	job, err := s.attachable(from, attach.GetJob())
	if job != nil {
		noteRead(stream.Context(), job)
	}
	if err != nil {
		return err
	}
	alloc, node := session.Alloc{Job: job.ID, Epoch: job.Epoch}, cmp.Or(attach.GetNode(), job.Run.BatchHost())
	if job.Alloc(node) == nil {
		return status.Errorf(codes.FailedPrecondition, "job %d does not run on node %.64q", job.ID, node)
	}
	link := s.loops.Sessions().Get(node)
	if link == nil {
		return status.Errorf(codes.Unavailable, "node %s, on which job %d runs, is not connected to this controller", node, job.ID)
	}
	if err := s.auditNow(stream.Context(), pb.Controller_Attach_FullMethodName); err != nil {
		return err
	}
	name := uuid.NewString()
	c := &channel{alloc: alloc, target: node, second: make(chan tunnelStream, 1), over: make(chan struct{})}
	if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Alloc: alloc.ID(), Node: node}}}); err != nil {
		return err
	}
	return s.tunnels.joined(stream, name, c, func() {
		link.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_Connect{Connect: &pb.Connect{
			Alloc: alloc.ID(), Channel: name, Client: true, Use: attach.GetUse()}}})
	})
}

// attachable returns a job that the caller may attach to, and that runs. For a
// refused one it may still return which job it would have been. A job acts as
// its user, in root's jobs too, but never as root.
func (s *Controller) attachable(from *caller, id *pb.JobId) (*state.Job, error) {
	may := s.sightOf(from, s.cluster.View())
	found := may.seen(idTargets([]*pb.JobId{id})[0])
	job := found[0].job
	switch {
	case job == nil:
		return nil, status.Error(codes.NotFound, may.unknown(id))
	case !mayAttach(from, job.Owner().UID):
		return job, errMayNotAttach
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

// mayAttach reports whether the caller may attach to the jobs of a user.
func mayAttach(from *caller, uid uint32) bool { return from.uid == uid || from.isRoot() }

var errMayNotAttach = status.Error(codes.PermissionDenied, "Access/permission denied: only the user of a job, and root, may attach to it")

var _ tunnelStream = (pb.Controller_AttachServer)(nil)

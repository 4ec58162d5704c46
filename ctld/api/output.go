package api

import (
	"cmp"
	"context"
	"os"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/history"
	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// readOutput joins a client with the node on which a job's script runs or ran last, and
// has it send the script's output. Who may attach to a job may read it.
func (s *Controller) readOutput(stream pb.Controller_AttachServer, from *caller, attach *pb.Attach) error {
	job, err := s.jobThatRan(stream.Context(), from, attach.GetJob())
	if err != nil {
		return err
	}
	path, err := outputPath(job, attach.GetOutput().GetError())
	if err != nil {
		return err
	}
	id, node := job.GetId().GetJob(), job.GetBatchHost()
	link := s.loops.Sessions().Get(node)
	if link == nil {
		return status.Errorf(codes.FailedPrecondition, "node %s, on which job %d wrote its output, is away: its file there is %s. Ask again when gqueue or ginfo shows the node, or read the file where its directory is shared", node, id, path)
	}
	if err := s.auditNow(stream.Context(), pb.Controller_Attach_FullMethodName); err != nil {
		return err
	}
	alloc, name := session.Alloc{Job: id, Epoch: job.GetEpoch()}, uuid.NewString()
	c := &channel{alloc: alloc, target: node, purpose: forOutput, second: make(chan tunnelStream, 1), over: make(chan struct{})}
	if err := stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Attached{Attached: &pb.Attached{Alloc: alloc.ID(), Node: node, Path: path}}}); err != nil {
		return err
	}
	return s.tunnels.joined(stream, name, c, func() {
		link.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SendOutput{SendOutput: &pb.SendOutput{
			Alloc: alloc.ID(), Channel: name, Owner: job.GetOwner(), Path: path, Read: attach.GetOutput()}}})
	})
}

// outputPath is where a job's script writes on its node.
func outputPath(job *pb.Job, stderr bool) (string, error) {
	asked := job.GetSpec()
	pattern := cmp.Or(asked.GetStandardOutput(), spec.DefaultOutput(job.GetArrayJobId() != 0))
	if stderr {
		pattern = cmp.Or(asked.GetStandardError(), pattern)
	}
	path, err := spec.JobFile(pattern, asked.GetWorkDirectory(), spec.FileNames{
		JobID: job.GetId().GetJob(), ArrayJobID: job.GetArrayJobId(), ArrayTask: job.GetId().GetArrayTask(), IsArray: job.GetArrayJobId() != 0,
		JobName: asked.GetName(), User: job.GetOwner().GetUser(), Node: job.GetBatchHost(),
	})
	if err != nil {
		return "", status.Errorf(codes.FailedPrecondition, "job %d has no output: %v", job.GetId().GetJob(), err)
	}
	if path == os.DevNull {
		return "", status.Errorf(codes.FailedPrecondition, "job %d writes to %s, which keeps nothing: the output of galloc, and of grun outside a job, is where it was typed", job.GetId().GetJob(), path)
	}
	return path, nil
}

// jobThatRan is a job that the caller may attach to, as it is or was in its present or last
// run. The state knows it for a while after its end, and history from then on.
func (s *Controller) jobThatRan(ctx context.Context, from *caller, id *pb.JobId) (*pb.Job, error) {
	may := s.sightOf(from, s.cluster.View())
	found := may.seen(idTargets([]*pb.JobId{id})[0])
	known := found[0].job
	if known != nil {
		noteRead(ctx, known)
		switch {
		case !mayAttach(from, known.Owner().UID):
			return nil, errMayNotAttach
		case len(found) > 1 || known.Array != 0 && !known.HasTask && id.ArrayTask == nil:
			return nil, invalid("job %d is an array: name one of its tasks, as in %d_1", id.GetJob(), id.GetJob())
		case known.Run != nil:
			return s.jobMessage(may, selected{job: known}, state.JobDetail{}), nil
		case known.Epoch == 0 && known.Phase == state.Waiting:
			return nil, status.Error(codes.FailedPrecondition, "Job is pending execution")
		}
	}
	job, err := s.lastRun(ctx, may, id)
	if job != nil && known == nil {
		notePastRead(ctx, job)
	}
	switch {
	case err != nil:
		return nil, err
	case job == nil && known == nil:
		return nil, status.Error(codes.NotFound, may.unknown(id))
	case job == nil || job.GetBatchHost() == "":
		return nil, status.Errorf(codes.FailedPrecondition, "job %d has no output: it never ran", id.GetJob())
	case !mayAttach(from, job.GetOwner().GetUid()):
		return nil, errMayNotAttach
	}
	return job, nil
}

// lastRun is the last run of a job that history has and that began, or else the job as it
// ended without one; nil = it does not exist for the caller.
func (s *Controller) lastRun(ctx context.Context, may *sight, id *pb.JobId) (*pb.Job, error) {
	filter, err := newFilter(&pb.JobFilter{Ids: []*pb.JobId{id}})
	if err != nil {
		return nil, err
	}
	leave, err := s.readers.enter(ctx, may.uid)
	if err != nil {
		return nil, err
	}
	defer leave()
	list := &runList{request: &pb.ListRunsRequest{}, filter: filter, may: may}
	var last *pb.Job
	several := false
	take := func(run *pb.PastRun) {
		job := run.GetJob()
		several = several || last != nil && last.GetId().GetJob() != job.GetId().GetJob()
		if job.GetBatchHost() != "" || last == nil {
			last = job
		}
	}
	through, err := s.options.History.Read(ctx, history.Choice{Jobs: []uint32{id.GetJob()}}, state.EndOf(may.view.Index()), func(found *history.Found) error {
		run, err := found.Run()
		if err == nil && list.matches(run) {
			take(run)
		}
		return err
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for stored := range may.view.HistoryAfter(through) {
		run := new(pb.PastRun)
		if proto.Unmarshal(stored.Run, run) == nil && list.matches(run) {
			take(run)
		}
	}
	switch {
	case several:
		return nil, invalid("job %d is an array: name one of its tasks, as in %d_1", id.GetJob(), id.GetJob())
	case last == nil && err != nil:
		return nil, status.Errorf(codes.Unavailable, "job %d may be over, and the history of this controller cannot be read: %v", id.GetJob(), err)
	}
	return last, nil
}

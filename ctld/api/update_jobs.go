package api

import (
	"context"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxJudged bounds the different jobs of one update that each have to be
// checked whether they could run after it.
const maxJudged = 256

// UpdateJobs changes jobs. Each is changed whole or not at all.
func (s *Controller) UpdateJobs(ctx context.Context, request *pb.UpdateJobsRequest) (*pb.UpdateJobsResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	privileged := s.isAdministrator(from)
	if err := checkChange(request.GetChange(), privileged); err != nil {
		return nil, err
	}
	change, err := state.ChangeFromMessage(request.GetChange())
	if err != nil {
		return nil, invalid("%v", err)
	}
	s.ownOnly(request.GetFilter(), from, privileged)
	coordinator := s.coordinator(from)
	if change.Places() {
		if err := s.checkChanged(ctx, from, request, &change); err != nil {
			return nil, err
		}
	}
	results, err := s.onTargets(ctx, from, state.KindUpdateJobs, request, func(targets []state.Target) state.Command {
		return state.UpdateJobs{Targets: targets, UID: from.uid, Privileged: privileged, Change: change, Coordinator: coordinator, SeesAll: s.seesAll(from)}
	})
	return &pb.UpdateJobsResponse{Results: results}, err
}

// checkChange refuses a change that makes no sense, whatever the job.
func checkChange(change *pb.JobChange, administrator bool) error {
	if change == nil {
		return invalid("the request holds no change")
	}
	// An update may say what a submission may say.
	job := &pb.JobSpec{
		Name: change.GetName(), Account: change.GetAccount(), Qos: change.GetQos(), Comment: change.GetComment(),
		Wckey: change.GetWckey(), Constraint: change.GetConstraint(), NodeList: change.GetNodeList(), ExcludeNodes: change.GetExcludeNodes(),
		MinNodes: change.GetMinNodes(), MaxNodes: change.GetMaxNodes(), Tasks: change.GetTasks(), TasksPerNode: change.GetTasksPerNode(),
		CpusPerTask: change.GetCpusPerTask(), MemoryPerNodeBytes: change.GetMemoryPerNodeBytes(), MemoryPerCpuBytes: change.GetMemoryPerCpuBytes(),
		TmpPerNodeBytes: change.GetTmpPerNodeBytes(),
		Gpus:            change.GetGpus().GetRequests(),
		MailTypes:       change.GetMailTypes(), MailUser: change.GetMailUser(),
	}
	for _, check := range []func(*pb.JobSpec) error{checkTexts, checkCounts, checkGPUs, checkHosts} {
		if err := check(job); err != nil {
			return err
		}
	}
	switch {
	case len(change.GetPartitions()) > bounds.MaxPartitions:
		return invalid("%d partitions are too many", len(change.GetPartitions()))
	case change.TimeLimitS != nil && (change.GetTimeLimitS() == 0 || change.GetAddTimeS() != 0):
		return invalid("Requested time limit is invalid (missing or exceeds some limit): give one limit, of a minute at least")
	case change.GetAddTimeS() > int64(spec.Unlimited) || change.GetAddTimeS() < -int64(spec.Unlimited):
		return invalid("Requested time limit is invalid (missing or exceeds some limit): it would be too long")
	case change.GetBeginMs() < 0 || change.GetDeadlineMs() < 0 || change.GetBeginMs() > maxTimeMS || change.GetDeadlineMs() > maxTimeMS:
		return invalid("Invalid time specification: StartTime and Deadline are times from 1970 to 9999")
	}
	return nil
}

// checkChanged refuses a change after which a waiting job could never run, as
// it would be refused at submission. Jobs with equal requests are checked once.
func (s *Controller) checkChanged(ctx context.Context, from *caller, request *pb.UpdateJobsRequest, change *state.JobChange) error {
	if err := s.confirm(ctx); err != nil {
		return err
	}
	targets, err := s.targets(from, request.GetFilter(), request.GetTasks())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	privileged := s.isAdministrator(from)
	judged := make(map[*state.Spec]bool)
	for _, target := range targets {
		for _, found := range resolve(view, target) {
			job := found.job
			if job == nil || job.Phase != state.Waiting || judged[job.Spec] {
				continue
			}
			if !privileged && job.Owner().UID != from.uid && !s.coordinates(from, job) {
				// Users learn nothing about others' jobs by asking what could
				// be changed.
				continue
			}
			if judged[job.Spec] = true; len(judged) > maxJudged {
				return invalid("more than %d different jobs in one update: name fewer", maxJudged)
			}
			if err := s.judgeChanged(view, job, change); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Controller) judgeChanged(view *state.View, job *state.Job, change *state.JobChange) error {
	changed := view.Changed(job, change)
	shape, err := state.ShapeOf(view.Policy(), &changed)
	if err != nil {
		return refusalOf(err)
	}
	if err := checkGroups(view.Policy(), shape.Partitions, identityOf(job.Owner())); err != nil {
		return err
	}
	if err := checkNamedNodes(view, shape); err != nil {
		return err
	}
	return s.checkFeasible(view, shape)
}

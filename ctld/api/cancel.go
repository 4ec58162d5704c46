package api

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Bounds of delivering signals.
const (
	signalLimit  = 5 * time.Second
	signalsAbove = 64 // Linux has signals 1 to 64
	signalWidth  = 128
)

// Cancel ends jobs, or signals them.
func (s *Controller) Cancel(ctx context.Context, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetSignal() > signalsAbove {
		return nil, invalid("signal %d is not known: Linux has 1 to %d", request.GetSignal(), signalsAbove)
	}
	if request.GetSignal() == 0 && (request.GetBatch() || request.GetFull()) {
		return nil, invalid("the batch script alone, or all steps with it, can be signalled, not cancelled: add --signal=SIG")
	}
	if request.GetSignal() != 0 {
		return s.signal(ctx, from, request)
	}
	privileged, coordinator := s.isAdministrator(from), s.coordinator(from)
	results, err := s.onTargets(ctx, from, state.KindCancelJobs, request, func(targets []state.Target) state.Command {
		return state.CancelJobs{Targets: targets, UID: from.uid, Privileged: privileged, Coordinator: coordinator, SeesAll: s.seesAll(from)}
	})
	return &pb.CancelResponse{Results: results}, err
}

// onJobs is a request about jobs.
type onJobs interface {
	GetRequestId() string
	GetFilter() *pb.JobFilter
	GetTasks() []*pb.ArrayTasks
}

// onTargets commits one command for the jobs a request means, or several when
// there are too many for one. The answer to a repeated request is the former
// one.
func (s *Controller) onTargets(ctx context.Context, from *caller, kind state.Kind, request onJobs, command func([]state.Target) state.Command) ([]*pb.JobResult, error) {
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	if before, known := s.cluster.Remembered(id, kind); known && len(before.Jobs) < bounds.MaxTargets {
		return jobResults(before.Jobs), nil
	}
	targets, err := s.targets(from, request.GetFilter(), request.GetTasks())
	if err != nil {
		return nil, err
	}
	var answers []*pb.JobResult
	n := 0
	for chunk := range slices.Chunk(targets, bounds.MaxTargets) {
		result, err := s.propose(ctx, command(chunk), chunkID(id, n))
		if err != nil {
			return nil, err
		}
		answers = append(answers, jobResults(result.Jobs)...)
		n++
	}
	return answers, nil
}

// signal delivers one signal to the running jobs among those meant. Nothing
// is written to the log: it changes no state.
func (s *Controller) signal(ctx context.Context, from *caller, request *pb.CancelRequest) (*pb.CancelResponse, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	targets, err := s.targets(from, request.GetFilter(), request.GetTasks())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, signalLimit)
	defer cancel()
	privileged := s.isAdministrator(from)
	may := s.sightOf(from, s.cluster.View())
	var answers []*pb.JobResult
	var deliveries sync.WaitGroup
	places := make(chan struct{}, signalWidth)
	for _, target := range targets {
		for _, found := range may.seen(target) {
			answer := &pb.JobResult{Id: found.id}
			answers = append(answers, answer)
			if found.job == nil {
				answer.Error = may.unknown(found.id)
				continue
			}
			if !s.maySignal(from, privileged, found.job, answer) {
				continue
			}
			places <- struct{}{}
			deliveries.Go(func() {
				defer func() { <-places }()
				answer.Error = s.signalJob(ctx, found.job, request)
			})
		}
	}
	deliveries.Wait()
	return &pb.CancelResponse{Results: answers}, nil
}

// resolved is a job that a target means; job is nil when nobody has it.
type resolved struct {
	id  *pb.JobId
	job *state.Job
}

func resolve(view *state.View, target state.Target) []resolved {
	var found []resolved
	add := func(job *state.Job) {
		id := &pb.JobId{Job: job.ID}
		if job.HasTask {
			task := job.Task
			id = &pb.JobId{Job: job.Array, ArrayTask: &task}
		}
		found = append(found, resolved{id, job})
	}
	if len(target.Tasks) == 0 {
		for member := range view.Members(target.Job) {
			add(member)
		}
	}
	for member := range view.MembersWith(target.Job, target.Tasks) {
		if member.HasTask {
			add(member)
		}
	}
	if job, known := view.Job(target.Job); len(found) == 0 && known {
		add(job)
	}
	if len(found) == 0 {
		found = append(found, resolved{id: &pb.JobId{Job: target.Job}})
	}
	return found
}

// within reports whether a task is in ranges, which are ascending and do not overlap.
func within(ranges []ranges.Range, task uint32) bool {
	at := sort.Search(len(ranges), func(i int) bool { return task <= ranges[i].Last })
	return at < len(ranges) && ranges[at].First <= task && (task-ranges[at].First)%max(ranges[at].Step, 1) == 0
}

// maySignal fills in the answer for a job that cannot be signalled.
func (s *Controller) maySignal(from *caller, privileged bool, job *state.Job, answer *pb.JobResult) bool {
	switch {
	case !privileged && job.Owner().UID != from.uid && !s.coordinates(from, job):
		answer.Error = "Access/permission denied"
	case job.Phase == state.Waiting:
		answer.Error = "Job is pending execution"
	case job.Phase != state.Running:
		answer.Error, answer.AlreadyDone = "Job/step already completing or completed", true
	case job.Suspended():
		answer.Error = "Job is suspended"
	default:
		return true
	}
	return false
}

package api

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

var errMayNotTop = status.Error(codes.PermissionDenied,
	"Access/permission denied: on this cluster only administrators and operators move jobs to the top (scheduler.enable_user_top in cluster.toml)")

// top moves waiting jobs before the other ones of their user, in the order in which they are
// named: it exchanges nice values within one user, partition, account and QOS (scontrol(1),
// top). All of it is one command.
func (s *Controller) top(ctx context.Context, from *caller, request *pb.ControlRequest) (*pb.ControlResponse, error) {
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	ids := request.GetFilter().GetIds()
	if len(ids) == 0 || len(request.GetTasks()) > 0 {
		return nil, invalid("Invalid job id specified: name jobs or whole arrays, as in 12,15")
	}
	if err := checkRepeated(idTargets(ids)); err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	if before, known := s.cluster.Remembered(id, state.KindTopJobs); known {
		return &pb.ControlResponse{Results: jobResults(before.Jobs)}, nil
	}
	view := s.cluster.View()
	privileged := s.levelOf(from, view) >= state.Operator
	if !privileged && !view.Policy().Scheduler.UserTop {
		return nil, errMayNotTop
	}
	queue := queueOf(view)
	waits := make(map[uint32]bool, len(queue))
	for _, job := range queue {
		waits[job.id] = true
	}
	may := s.sightOf(from, view)
	var named []uint32
	var refused []*pb.JobResult
	for _, target := range idTargets(ids) {
		for _, found := range waitingOnly(may.seen(target)) {
			if found.job == nil {
				refused = append(refused, &pb.JobResult{Id: found.id, Error: may.unknown(found.id)})
				continue
			}
			if why := whyNotTop(found.job, waits, privileged, from.uid); why != "" {
				refused = append(refused, &pb.JobResult{Id: found.id, Error: why})
				continue
			}
			named = append(named, found.job.ID)
		}
	}
	if len(refused) > 0 {
		return &pb.ControlResponse{Results: refused}, nil // none is moved: the order is one of all of them
	}
	changes := planTop(queue, named)
	if len(changes) == 0 {
		return &pb.ControlResponse{}, nil
	}
	result, err := s.propose(ctx, state.TopJobs{Changes: changes, UID: from.uid, Privileged: privileged}, id)
	if err != nil {
		return nil, err
	}
	var failed []*pb.JobResult
	for _, one := range jobResults(result.Jobs) {
		if one.GetError() != "" {
			failed = append(failed, one)
		}
	}
	return &pb.ControlResponse{Results: failed}, nil
}

// waitingOnly leaves out the tasks of an array that wait no longer, if others do.
func waitingOnly(found []resolved) []resolved {
	waits := func(r resolved) bool { return r.job != nil && r.job.Phase == state.Waiting }
	if !slices.ContainsFunc(found, waits) {
		return found[:1]
	}
	return slices.DeleteFunc(found, func(r resolved) bool { return !waits(r) })
}

// whyNotTop says why a job cannot be moved; "" = it can. waits are those in the queue.
func whyNotTop(job *state.Job, waits map[uint32]bool, privileged bool, uid uint32) string {
	switch {
	case !privileged && job.Owner().UID != uid:
		return "Access/permission denied"
	case job.Phase != state.Waiting:
		return "Job is no longer pending execution"
	case job.Held != sched.NotHeld:
		return "Job is in held state: release it first"
	case job.FixedPriority != 0:
		return "Job has a Priority that was set: release it, so that it is computed again"
	case len(job.Spec.Partitions) > 1:
		return "Requested operation not supported: it waits for several partitions, and only jobs for one are moved"
	case !waits[job.ID]:
		return "Job is not in the queue: it waits for other jobs or for its begin time"
	}
	return ""
}

// queued is a job whose place in the queue depends on its nice value.
type queued struct {
	id       uint32
	priority uint32
	nice     int32
	among    among
}

// among are the jobs that exchange places.
type among struct {
	uid                     uint32
	partition, account, qos string
}

// queueOf are the jobs that wait and are eligible, those that go first before the others.
func queueOf(view *state.View) []queued {
	snapshot := view.SchedSnapshot(time.Now().UnixMilli())
	var queue []queued
	for factors := range sched.PriorityFactors(snapshot) {
		id := uint32(snapshot.Waiting[factors.Job].ID)
		job, known := view.Job(id)
		if !known || job.FixedPriority != 0 || len(job.Spec.Partitions) > 1 {
			continue
		}
		queue = append(queue, queued{id, factors.Priority, factors.Nice, among{
			job.Owner().UID, partitionName(&snapshot, &factors), job.Spec.Account, job.Spec.QOS,
		}})
	}
	slices.SortFunc(queue, func(a, b queued) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.id, b.id))
	})
	return queue
}

// planTop changes nice values so that the named jobs go first, in that order, among those
// that each is with; the others keep theirs. They share the priorities that they have
// together: none goes before what the first of them went before.
func planTop(queue []queued, named []uint32) []state.NiceChange {
	groups := map[among][]queued{}
	for _, job := range queue {
		groups[job.among] = append(groups[job.among], job)
	}
	place := map[uint32]int{}
	for i, id := range named {
		place[id] = i - len(named)
	}
	var changes []state.NiceChange
	for _, was := range groups {
		if !slices.ContainsFunc(was, func(q queued) bool { return place[q.id] < 0 }) {
			continue // nobody asked for these
		}
		wanted := slices.Clone(was)
		slices.SortStableFunc(wanted, func(a, b queued) int { return cmp.Compare(place[a.id], place[b.id]) })
		last := int64(math.MaxInt64)
		for i, job := range wanted {
			// Of equal priorities the lower number goes first.
			priority := min(int64(was[i].priority), last)
			if i > 0 && priority == last && job.id < wanted[i-1].id {
				priority--
			}
			last = max(priority, 1)
			nice := int64(job.nice) + int64(job.priority) - last
			if to := int32(min(max(nice, -maxNice), maxNice)); to != job.nice {
				changes = append(changes, state.NiceChange{Job: job.id, From: job.nice, To: to})
			}
		}
	}
	slices.SortFunc(changes, func(a, b state.NiceChange) int { return cmp.Compare(a.Job, b.Job) })
	return changes
}

// maxNice is the highest value of --nice.
const maxNice = math.MaxInt32 - 3

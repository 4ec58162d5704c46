package api

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/explain"
	"github.com/gleaner-hpc/gleaner/sched/why"
)

// Bounds of the plans that are made for those who ask, and not to be carried out. They are
// made one after another, and each is followed by a rest as long as it took. So together
// with the plans of the leader's own they never take more than one core.
const (
	// plansLimit bounds the plans for one request.
	plansLimit = 10 * time.Second
	// plansPatience is how long a request waits for those before it.
	plansPatience = 5 * time.Second
	plansPoll     = 10 * time.Millisecond
)

// plans lets one request after another make plans, and try commands on a View.
type plans struct{ making sync.Mutex }

// begin waits for a request's turn. done ends it.
func (p *plans) begin(ctx context.Context) (done func(), err error) {
	for until := time.Now().Add(plansPatience); !p.making.TryLock(); {
		if time.Now().After(until) {
			return nil, status.Error(codes.ResourceExhausted, "others ask about their jobs now: ask again in a few seconds")
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(plansPoll):
		}
	}
	return p.making.Unlock, nil
}

// paced reports whether there is time for one more plan, and rests before it as long as
// the last one took.
func paced(ctx context.Context) func() bool {
	until, last := time.Now().Add(plansLimit), time.Now()
	return func() bool {
		rest := time.NewTimer(min(time.Since(last), time.Until(until)))
		defer rest.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-rest.C:
		}
		last = time.Now()
		return last.Before(until)
	}
}

// plannedStart is a start in a plan that was made from a snapshot.
func (s *sight) plannedStart(start *why.Start, snapshot *sched.Snapshot) *pb.PlannedStart {
	out := &pb.PlannedStart{Now: start.Now, StartMs: start.AtMS, FillsHole: start.Fills}
	if start.Now {
		out.StartMs = snapshot.NowMS
	}
	if out.StartMs == 0 {
		return out
	}
	out.Partition = snapshot.Partitions[start.Partition].Name
	names := make([]string, len(start.Placement.Allocs))
	for i := range names {
		alloc := &start.Placement.Allocs[i]
		names[i] = snapshot.Nodes[alloc.Node].Name
		out.Cpus += uint32(alloc.CPUs.Count())
	}
	if !s.hides("nodes") {
		out.NodeList = spec.FormatHostList(names)
	}
	return out
}

// TestSubmission answers when and where a job would start, and keeps nothing of it.
func (s *Controller) TestSubmission(ctx context.Context, request *pb.SubmitRequest) (*pb.TestSubmissionResponse, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	command, shape, err := s.checkSubmit(from, request)
	if err != nil {
		return nil, err
	}
	command.SeesAll = s.seesAll(from)
	done, err := s.plans.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	now, view := time.Now(), s.cluster.View()
	after, result := view.Try(command, now.UnixMilli())
	if result.Refused != nil {
		return nil, refusal(result.Refused)
	}
	answer := &pb.TestSubmissionResponse{JobId: result.JobID, Warnings: warnings(view, &command, shape)}
	may := s.sightOf(from, after)
	job, _ := after.Job(result.JobID)
	snapshot := s.loops.Snapshot(after, now)
	plan, _ := sched.Schedule(snapshot, sched.Memo{})
	start := why.StartIn(&plan, sched.JobID(result.JobID))
	if len(view.Awaited()) == 0 {
		answer.Start = may.plannedStart(&start, &snapshot)
	}
	if !start.Now {
		message := after.JobMessage(job, may.overlay(overlayIn(&plan, &snapshot, result.JobID)), state.JobDetail{})
		may.withhold(job, message)
		answer.Reason, answer.ReasonDetail = message.GetReason(), message.GetReasonDetail()
	}
	return answer, nil
}

// overlayIn is why a job waits in a plan that was made from a snapshot.
func overlayIn(plan *sched.Plan, snapshot *sched.Snapshot, id uint32) state.Overlay {
	at, waits := slices.BinarySearchFunc(plan.Reasons, sched.JobID(id), func(reason sched.Reason, id sched.JobID) int { return cmp.Compare(reason.Job, id) })
	if !waits {
		return state.Overlay{}
	}
	reason := plan.Reasons[at]
	return state.Overlay{Reason: explain.Display(reason, *snapshot), Detail: explain.Sentence(reason, *snapshot), NamesOthers: reason.NamesOthers()}
}

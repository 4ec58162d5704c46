package leader

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/tally"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file counts what the loops did, for gdiag.

// Work is what the loops have done since this controller started, or since it was reset.
func (l *Leader) Work() *tally.Work { return l.work }

// workOf is what one command did to jobs.
func workOf(view *state.View, result *state.Result) tally.Jobs {
	var did tally.Jobs
	if result.Refused != nil || result.Repeated {
		return did
	}
	switch result.Kind {
	case state.KindSubmitJob:
		did.Submitted = 1
		return did
	case state.KindPlaceJobs:
		for i := range result.Starts {
			if result.Starts[i].Dropped == "" {
				did.Started++
			}
		}
		return did
	}
	for _, id := range result.ChangedJobs {
		job, known := view.Job(id)
		if !known || job.Phase != state.Finished || job.End == nil || job.End.EndMS != result.TimeMS {
			continue // it was over before
		}
		switch job.End.State {
		case pb.JobState_JOB_STATE_COMPLETED:
			did.Completed++
		case pb.JobState_JOB_STATE_CANCELLED:
			did.Cancelled++
		default:
			did.Failed++
		}
	}
	return did
}

// backfilled is how many starts of a plan passed a job of higher priority, in the same
// partition, that waits for resources.
func backfilled(snapshot *sched.Snapshot, plan *sched.Plan) uint64 {
	if !snapshot.Backfill.On || len(plan.Starts) == 0 {
		return 0
	}
	highest := map[int]uint32{} // priority of those that wait, by partition
	for i := range plan.Reasons {
		reason := &plan.Reasons[i]
		if reason.Code != sched.ReasonResources || reason.Partition < 0 {
			continue
		}
		// The state lists them ascending.
		at, found := slices.BinarySearchFunc(snapshot.Waiting, reason.Job, func(job sched.Job, id sched.JobID) int { return cmp.Compare(job.ID, id) })
		if found {
			partition := int(reason.Partition)
			highest[partition] = max(highest[partition], plan.Priorities[at])
		}
	}
	count := uint64(0)
	for i := range plan.Starts {
		if plan.Starts[i].Priority < highest[plan.Starts[i].Partition] {
			count++
		}
	}
	return count
}

package state

import (
	"math"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// EndLateJobs ends the waiting jobs that can no longer meet their deadline,
// at most MaxLate of them: log time says which. It may be applied twice without
// harm.
type EndLateJobs struct{}

func (EndLateJobs) kind() Kind { return KindEndLateJobs }
func (EndLateJobs) apply(s *State, _ *Result) {
	var late []uint32
	last := pair(uint32(min(max(s.timeMS, 0)/1000, math.MaxUint32)), math.MaxUint32)
	s.late.Scan(func(key uint64, _ struct{}) bool {
		if key > last || len(late) == bounds.MaxLate {
			return false
		}
		if job, _ := s.live.Get(uint32(key)); job.LatestStartMS() < s.timeMS {
			late = append(late, job.ID)
		}
		return true
	})
	for _, id := range late {
		job, _ := s.live.Get(id)
		next := *job
		next.Phase = Finished
		next.Saved = job.Saved.over()
		next.End = &End{
			State: pb.JobState_JOB_STATE_DEADLINE, Reason: ReasonDeadline, EndMS: s.timeMS,
			Detail: "removed, because it could not end before its deadline any more",
		}
		s.putJob(&next)
	}
}

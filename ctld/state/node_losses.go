package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// noteLoss counts that a node has lost its jobs: jobs that are saved at
// intervals are saved more often on a node that is lost more often. Losses at
// one moment count once. What a reclaim has killed counts to the owner: see Habit.
func (s *State) noteLoss(report *AllocReport) {
	switch report.Cause {
	case pb.EndCause_END_CAUSE_RECLAIMED:
		s.noteLeft(report.Node, true)
		return
	case pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, pb.EndCause_END_CAUSE_LEASE_ENDED, pb.EndCause_END_CAUSE_SUPERVISOR_DIED:
	default:
		return
	}
	old, known := s.nodes.Get(report.Node)
	if !known || old.LossMS == s.timeMS {
		return
	}
	node := *old
	node.Losses++
	node.LossMS = s.timeMS
	s.putNode(&node)
}

package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// noteLoss counts that a node has lost what ran on it, from LevelFrozen on: jobs
// that are saved every now and then are saved more often on a node that is lost
// more often. What is lost at one moment counts once.
func (s *State) noteLoss(report *PartReport) {
	switch report.Cause {
	case pb.EndCause_END_CAUSE_UNKNOWN_PART, pb.EndCause_END_CAUSE_LEASE_ENDED, pb.EndCause_END_CAUSE_SUPERVISOR_DIED:
	default:
		return
	}
	old, known := s.nodes.Get(report.Node)
	if !known || s.level < LevelFrozen || old.LossMS == s.timeMS {
		return
	}
	node := *old
	node.Losses++
	node.LossMS = s.timeMS
	s.putNode(&node)
}

package session

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TellOwner tells the node what it has to know of its owner, and up to which number the
// holds that were placed on it are over, unless it was told so in this session. One
// goroutine at a time calls it.
func (s *Session) TellOwner(rules *pb.OwnerRules, holdsOff uint64) {
	if s.owner == nil || !proto.Equal(s.owner, rules) {
		s.owner = rules
		s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_OwnerRules{OwnerRules: rules}})
	}
	if holdsOff > s.holdsOff {
		s.holdsOff = holdsOff
		s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_DropHolds{DropHolds: &pb.DropHolds{Through: holdsOff}}})
	}
}

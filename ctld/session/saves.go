package session

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Grade is whether a part can be saved, as its node says.
type Grade struct {
	Grade  pb.SaveGrade
	Reason string
}

// Savable says whether it could be now.
func (g Grade) Savable() bool {
	return g.Grade == pb.SaveGrade_SAVE_GRADE_YES || g.Grade == pb.SaveGrade_SAVE_GRADE_LIKELY
}

// SetGrade notes what a node says of a part, and answers whether that lets it be
// saved, or no more.
func (s *Session) SetGrade(part Part, grade Grade) (turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.grades[part]
	if !known && len(s.grades) >= maxParts {
		return false
	}
	s.grades[part] = grade
	return before.Savable() != grade.Savable()
}

// Grade is what the node said last of a part; the zero Grade before it did.
func (s *Session) Grade(part Part) Grade {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grades[part]
}

// saveSent is the order about a save that was sent last for a part.
type saveSent struct {
	number  uint32
	abandon bool
}

// Save sends the order of a save, or to take it back, unless that was sent last in
// this session. It is for the goroutine of Order.
func (s *Session) Save(order *pb.SavePart) {
	part, now := PartOf(order.GetPart()), saveSent{order.GetNumber(), order.GetAbandon()}
	if s.saves[part] == now {
		return
	}
	s.saves[part] = now
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavePart{SavePart: order}})
}

// Saving is with what the node saves and restores jobs, as it said when it
// registered.
func (s *Session) Saving() *pb.Saving { return s.saving }

// keepSaves forgets what was said and ordered of parts that keep does not name.
func (s *Session) keepSaves(keep func(Part) bool) {
	maps.DeleteFunc(s.saves, func(part Part, _ saveSent) bool { return !keep(part) })
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.grades, func(part Part, _ Grade) bool { return !keep(part) })
}

// SetHeld notes which images lie where the node reaches them by itself.
func (s *Session) SetHeld(images []*pb.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = images[:min(len(images), maxParts)]
}

// KeepImages tells the node which of the images that it made are needed, unless
// that was sent last in this session and it has no others: one may have been
// spared because its job was there. One goroutine at a time calls it.
func (s *Session) KeepImages(keep *pb.KeepImages) {
	if s.kept != nil && proto.Equal(s.kept, keep) && !s.holdsMore(keep) {
		return
	}
	s.kept = keep
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_KeepImages{KeepImages: keep}})
}

// holdsMore says whether the node has images that it made and that are not
// needed.
func (s *Session) holdsMore(keep *pb.KeepImages) bool {
	needed := make(map[string]bool, len(keep.GetImages()))
	for _, image := range keep.GetImages() {
		needed[string(image.GetDigest())] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(image *pb.Image) bool {
		return image.GetNode() == s.node && !needed[string(image.GetDigest())]
	})
}

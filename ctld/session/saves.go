package session

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Checkpointable is whether an allocation can be saved, as its node says.
type Checkpointable struct {
	Checkpointable pb.Checkpointable
	Reason         string
	Tried          bool // a save failed for that reason, and may be tried again
}

// Savable reports whether it can be saved now.
func (g Checkpointable) Savable() bool {
	return g.Checkpointable == pb.Checkpointable_CHECKPOINTABLE_YES || g.Checkpointable == pb.Checkpointable_CHECKPOINTABLE_LIKELY
}

// MayTry reports whether a save can be tried now, though perhaps the last one failed: whoever
// tries again by itself waits a while before.
func (g Checkpointable) MayTry() bool {
	return g.Savable() || g.Checkpointable == pb.Checkpointable_CHECKPOINTABLE_NOT_NOW && g.Tried
}

// SetCheckpointable notes what a node says of an allocation, and reports
// whether that changes whether it can be saved.
func (s *Session) SetCheckpointable(alloc Alloc, checkpointable Checkpointable) (turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.grades[alloc]
	if !known && len(s.grades) >= maxAllocs {
		return false
	}
	s.grades[alloc] = checkpointable
	return before.Savable() != checkpointable.Savable()
}

// Checkpointable is what the node last said of an allocation; the zero value
// before it said anything.
func (s *Session) Checkpointable(alloc Alloc) Checkpointable {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grades[alloc]
}

// saveSent is the last order about a save that was sent for an allocation.
type saveSent struct {
	number  uint32
	abandon bool
}

// Save sends the order for a save, or to take it back, unless that was the last
// one sent in this session. It is for the goroutine of Order.
func (s *Session) Save(order *pb.SaveAlloc) {
	alloc, now := AllocOf(order.GetAlloc()), saveSent{order.GetNumber(), order.GetAbandon()}
	if s.saves[alloc] == now {
		return
	}
	s.saves[alloc] = now
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SaveAlloc{SaveAlloc: order}})
}

// Saving describes the node's means to save and restore jobs, from its
// registration.
func (s *Session) Saving() *pb.Saving { return s.saving }

// keepSaves forgets reports and orders about allocations that keep does not
// name.
func (s *Session) keepSaves(keep func(Alloc) bool) {
	maps.DeleteFunc(s.saves, func(alloc Alloc, _ saveSent) bool { return !keep(alloc) })
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.grades, func(alloc Alloc, _ Checkpointable) bool { return !keep(alloc) })
}

// SetHeld notes the images that the node reaches by itself.
func (s *Session) SetHeld(images []*pb.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = images[:min(len(images), maxAllocs)]
}

// KeepImages tells the node which of its images are needed, unless
// that was the last message sent in this session and the node has no others: an
// image may have been spared because its job was there. One goroutine at a time
// calls it.
func (s *Session) KeepImages(keep *pb.KeepImages) {
	if s.kept != nil && proto.Equal(s.kept, keep) && !s.holdsMore(keep) {
		return
	}
	s.kept = keep
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_KeepImages{KeepImages: keep}})
}

// holdsMore reports whether the node has images that it made, or in its own store,
// that are not needed.
func (s *Session) holdsMore(keep *pb.KeepImages) bool {
	needed := make(map[string]bool, len(keep.GetImages()))
	for _, image := range keep.GetImages() {
		needed[string(image.GetDigest())] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(image *pb.Image) bool {
		return (image.GetNode() == s.node || image.GetStore() == "") && !needed[string(image.GetDigest())]
	})
}

// HeldOfOthers are the images that other nodes made and that lie in the node's own
// store.
func (s *Session) HeldOfOthers() (images []*pb.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, image := range s.held {
		if image.GetNode() != s.node && image.GetStore() == "" {
			images = append(images, image)
		}
	}
	return images
}

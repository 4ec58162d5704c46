package session

import (
	"bytes"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxAsked bounds the unanswered questions about images that a session
// remembers: above that, a node gets no facts to answer with, says so, and is
// asked again.
const maxAsked = 4096

// Asked is the image of a question that the node was sent in this session and
// has not answered yet: one with the digest of image; nil when there is none.
// Such a node may have the facts of the image, and nothing else of it.
func (s *Session) Asked(image *pb.Image) *pb.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if len(asked.GetDigest()) > 0 && bytes.Equal(asked.GetDigest(), image.GetDigest()) {
			return asked
		}
	}
	return nil
}

// Answered notes that the question with a token has been answered.
func (s *Session) Answered(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, token)
}

// noteAsked remembers the image that a question is about. s.mu is held.
func (s *Session) noteAsked(message *pb.ControllerMessage) {
	if ask := message.GetAskRestore(); ask != nil && len(s.asked) < maxAsked {
		s.asked[ask.GetToken()] = ask.GetImage()
	}
}

// Fetch tells the node to copy an image into its own store.
func (s *Session) Fetch(order *pb.FetchImage) {
	s.mu.Lock()
	s.fetching[string(order.GetImage().GetDigest())] = order.GetImage()
	s.mu.Unlock()
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_FetchImage{FetchImage: order}})
}

// Fetching is the image with the digest of image that the node was told in this
// session to fetch, and has not answered about; nil when there is none.
func (s *Session) Fetching(image *pb.Image) *pb.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetching[string(image.GetDigest())]
}

// Fetched is Fetching, and forgets it: the node has answered.
func (s *Session) Fetched(image *pb.Image) *pb.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.fetching[string(image.GetDigest())]
	delete(s.fetching, string(image.GetDigest()))
	return told
}

// Holds reports whether the node says that it has an image in a store that it reaches.
func (s *Session) Holds(image *pb.Image) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.held, func(held *pb.Image) bool { return bytes.Equal(held.GetDigest(), image.GetDigest()) })
}

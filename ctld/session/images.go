package session

import (
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// maxTold bounds the images that a session remembers to have spoken of. A node
// that was asked about more is asked again.
const maxTold = 4096

// Told says whether the node was told in this session to go on with an image,
// or asked whether it could. Only such a node may have it sent.
func (s *Session) Told(image *pb.Image) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(image.GetDigest()) > 0 && slices.Contains(s.told, string(image.GetDigest()))
}

// noteTold remembers the image that a message speaks of. s.mu is held.
func (s *Session) noteTold(message *pb.ControllerMessage) {
	image := message.GetStartPart().GetRestore()
	if image == nil {
		image = message.GetAskRestore().GetImage()
	}
	if image == nil {
		return
	}
	digest := string(image.GetDigest())
	if at := slices.Index(s.told, digest); at >= 0 {
		s.told = slices.Delete(s.told, at, at+1)
	}
	s.told = append(s.told, digest)
	s.told = s.told[max(0, len(s.told)-maxTold):]
}

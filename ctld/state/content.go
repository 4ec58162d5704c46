package state

// This file counts who holds which content, and how many bytes that is for each
// user: a blob once, however many of the user's jobs share it, and what each
// job has to itself (Own). Jobs that are over count until they are forgotten,
// since their content is kept as long.

// heldBlob is a script or an environment of a user.
type heldBlob struct {
	uid    uint32
	digest Digest
}

// referContent counts one more job record that refers to its content.
func (s *State) referContent(job *Job) {
	s.shared.specs[job.Spec.digest].references++
	for _, blob := range []*Blob{job.Script, job.Environment} {
		if blob == nil {
			continue
		}
		s.shared.blobs[blob.Digest].references++
		held := heldBlob{job.Owner().UID, blob.Digest}
		if s.shared.held[held]++; s.shared.held[held] == 1 {
			user, _ := s.users.Get(held.uid)
			user.Bytes += uint64(len(blob.Bytes))
			s.putUserCounts(held.uid, user)
		}
	}
}

// releaseContent counts one job record less, and with the last one forgets all
// content that nobody else shares.
func (s *State) releaseContent(job *Job) {
	for _, blob := range []*Blob{job.Script, job.Environment} {
		if blob == nil {
			continue
		}
		release(s.shared.blobs, blob.Digest)
		held := heldBlob{job.Owner().UID, blob.Digest}
		if s.shared.held[held]--; s.shared.held[held] == 0 {
			delete(s.shared.held, held)
			user, _ := s.users.Get(held.uid)
			user.Bytes -= uint64(len(blob.Bytes))
			s.putUserCounts(held.uid, user)
		}
	}
	s.releaseSpec(job.Spec)
}

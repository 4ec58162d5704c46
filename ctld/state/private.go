package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Hides reports whether the policy keeps a kind of information (a word of
// spec.PrivateDataWords) from users whom it does not concern.
func (p *Policy) Hides(word string) bool { return slices.Contains(p.PrivateData, word) }

// normalizePrivate sorts the kinds, and refuses an unknown one.
func (p *Policy) normalizePrivate() error {
	var words []string
	for _, text := range p.PrivateData {
		word, err := spec.PrivateDataWord(text)
		if err != nil {
			return err
		}
		words = append(words, word)
	}
	slices.Sort(words)
	p.PrivateData = slices.Compact(words)
	return nil
}

// sees reports whether a job exists for the caller: where the policy hides
// jobs, others' are like jobs that were never submitted.
func (s *State) sees(who requester, job *Job) bool {
	return who.privileged || who.seesAll || !s.policy.Hides("jobs") || job.Owner().UID == who.uid || s.Coordinates(who.coordinator, job)
}

// seen leaves the numbers that the caller may know of.
func (s *State) seen(who requester, ids []uint32) []uint32 {
	if who.privileged || who.seesAll || !s.policy.Hides("jobs") {
		return ids
	}
	return slices.DeleteFunc(ids, func(id uint32) bool {
		job, known := s.Job(id)
		return known && !s.sees(who, job)
	})
}

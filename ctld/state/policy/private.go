package policy

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

package spec

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// NetworkRules are what a site or a partition may say of its jobs' network, from
// the least strict on: jobs share the node's unless they ask for one of their own,
// have one of their own unless they ask for the node's, or have one of their own.
var NetworkRules = []string{"host", "private", "private-only"}

// NetworkRule is the word in small letters; "" stays. The error names those there
// are.
func NetworkRule(text string) (string, error) {
	word := strings.ToLower(text)
	if word == "" {
		return "", nil
	}
	for _, known := range NetworkRules {
		if word == known {
			return word, nil
		}
	}
	why := fmt.Errorf("network: %.64q is none of %s", text, strings.Join(NetworkRules, ", "))
	if meant := similar.Nearest(word, NetworkRules); meant != "" {
		why = fmt.Errorf("%w; did you mean %s?", why, meant)
	}
	return "", why
}

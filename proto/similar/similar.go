// Package similar finds the word somebody meant when they mistyped one: an
// option, a field of a table, a command.
//
// It promises to stay silent rather than to guess wildly, and to take time in
// proportion to the number of words, whatever was typed. It needs nothing.
package similar

import (
	"strings"

	"github.com/xrash/smetrics"
)

const (
	// likeness is how alike two words must be, from 0 to 1. "tmie" is 0.93
	// like "time", "partitoin" 0.98 like "partition"; "foo" is 0.56 like "qos".
	likeness = 0.85
	// Winkler's own values: how alike words are before a common beginning
	// counts, and how much of it does.
	boostThreshold, prefixSize = 0.7, 4
	// maxBytes bounds the comparison of one word, whose cost grows with the
	// square of the length.
	maxBytes = 64
)

// Nearest is the word most like the typed one, in any case of letters; "" if
// none is like it.
func Nearest(typed string, words []string) string {
	best, degree := "", likeness
	lower := strings.ToLower(typed[:min(len(typed), maxBytes)])
	if lower == "" {
		return ""
	}
	for _, word := range words {
		like := smetrics.JaroWinkler(lower, strings.ToLower(word), boostThreshold, prefixSize)
		if like > degree {
			best, degree = word, like
		}
	}
	return best
}

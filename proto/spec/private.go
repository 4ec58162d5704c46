package spec

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// PrivateDataWords are the kinds of information that a cluster may hide from
// users who are not operators: PrivateData in slurm.conf(5).
var PrivateDataWords = []string{"accounts", "events", "jobs", "nodes", "partitions", "reservations", "usage", "users"}

// PrivateDataWord is the word in small letters. The error names those there
// are.
func PrivateDataWord(text string) (string, error) {
	word := strings.ToLower(text)
	for _, known := range PrivateDataWords {
		if word == known {
			return word, nil
		}
	}
	why := fmt.Errorf("private_data: %.64q is none of %s", text, strings.Join(PrivateDataWords, ", "))
	if meant := similar.Nearest(word, PrivateDataWords); meant != "" {
		why = fmt.Errorf("%w; did you mean %s?", why, meant)
	}
	return "", why
}

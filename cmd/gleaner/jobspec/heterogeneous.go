package jobspec

import (
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// errHeterogeneous refuses Slurm's jobs of several components by name. Run as
// one job, only the first component would be what was asked for.
var errHeterogeneous error = &option.LaterError{
	Name:   "a heterogeneous job (hetjob, or options after a colon)",
	Remedy: "submit the components as jobs of their own, and let one wait for another with --dependency=after:JOB; or ask for the largest of them with --nodes, --ntasks and --gpus",
}

// isHeterogeneous reports whether a directive begins another component.
func isHeterogeneous(rest string) bool {
	words := strings.Fields(rest)
	return len(words) > 0 && (words[0] == "hetjob" || words[0] == "packjob" || slices.Contains(words, ":"))
}

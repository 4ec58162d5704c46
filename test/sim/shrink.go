package main

import (
	"fmt"
	"os"

	"github.com/gleaner-hpc/gleaner/test/sim/ordered"
)

// smaller is a run that fails with fewer faults.
type smaller struct {
	options ordered.Options
	result  ordered.Result
}

// shrunk leaves out faults as long as the seed still breaks the same
// invariant.
func shrunk(o ordered.Options, result *ordered.Result) smaller {
	best := smaller{o, *result}
	best.options.Trace = nil
	class := result.Failure.Class()
	try := func(candidate ordered.Options) bool {
		r := ordered.Run(candidate)
		if r.Failure == nil || r.Failure.Class() != class {
			return false
		}
		best = smaller{candidate, r}
		return true
	}
	keep := []int{}
	for _, f := range result.Planned {
		if f.At <= result.Failure.At {
			keep = append(keep, f.Number)
		}
	}
	candidate := best.options
	candidate.Only = keep
	if !try(candidate) {
		return best
	}
	for size := len(keep) / 2; size > 0; size /= 2 {
		for at := 0; at < len(best.options.Only); {
			only := best.options.Only
			candidate := best.options
			candidate.Only = append(append([]int{}, only[:at]...), only[min(at+size, len(only)):]...)
			if !try(candidate) {
				at += size
			}
			fmt.Fprintf(os.Stderr, "\rshrinking: %d faults ", len(best.options.Only))
		}
	}
	fmt.Fprintln(os.Stderr)
	return best
}

package show

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// CPUClock is time of CPUs as sacct writes it: MM:SS.mmm below an hour.
func CPUClock(ns uint64) string {
	seconds := ns / 1e9
	if seconds >= 3600 {
		return Clock(uint32(min(seconds, uint64(spec.Unlimited)-1)))
	}
	return fmt.Sprintf("%02d:%02d.%03d", seconds/60, seconds%60, ns/1e6%1000)
}

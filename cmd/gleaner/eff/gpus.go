package eff

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// gpus says which GPUs the run had, for how long, and what it used of them.
func gpus(out *bufio.Writer, r past.Row) {
	total, byModel := show.GPUCounts(r.Job())
	if total == 0 {
		return
	}
	fmt.Fprintf(out, "GPUs: %d", total)
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		if model != "" {
			fmt.Fprintf(out, " %s", format.Printable(model))
		}
	}
	fmt.Fprintf(out, "\nGPU time: %s\n", show.Clock(uint32(min(uint64(r.ElapsedS())*uint64(total), uint64(spec.Unlimited)-1))))
	switch use := r.GPU(); {
	case r.Run.GetLive():
		fmt.Fprintln(out, "GPU Utilized: told when the job is over")
	case !use.Measured:
		fmt.Fprintln(out, "GPU Utilized: not measured")
	default:
		fmt.Fprintf(out, "GPU Utilized: %.2f of %d GPUs%s\nGPU Efficiency: %.2f%%\n", use.Percent/100, total, partly(r, use), use.Percent/float64(total))
		fmt.Fprintf(out, "GPU Memory Utilized: %s%s\n", size(use.Memory), perNode(r.Job()))
	}
	if lost := r.Run.GetLostGpuMs() / 1000; lost > 0 {
		fmt.Fprintf(out, "GPU time lost to preemptions: %s\n", show.Clock(uint32(min(lost, int64(spec.Unlimited)-1))))
	}
}

// partly says where the figures are not those of all nodes.
func partly(r past.Row, use past.GPUUse) string {
	if of := int(r.Job().GetNodes()); use.Nodes < of {
		return fmt.Sprintf(" (measured on %d of %d nodes)", use.Nodes, of)
	}
	return ""
}

// idlePercent of the time is how little a GPU works that is as good as idle.
const idlePercent = 10

// gpuAdvice is what to ask for next time: an option, or else a sentence. A short run says
// nothing, and neither does one that was not measured on all of its nodes.
func gpuAdvice(r past.Row, u use) (option, sentence string) {
	total, _ := show.GPUCounts(r.Job())
	gpu := r.GPU()
	if total == 0 || !gpu.Measured || gpu.Nodes < int(r.Job().GetNodes()) || u.wallS < shortRunS {
		return "", ""
	}
	busy := max(uint32(math.Ceil(gpu.Percent/100)), 1)
	switch {
	case gpu.Percent/float64(total) < idlePercent:
		return "", fmt.Sprintf("Its GPUs were idle for %.0f%% of the time: see whether the program uses them, and waits for its data; else ask for none.", 100-gpu.Percent/float64(total))
	case busy*wasteful <= uint32(total):
		return fmt.Sprintf("as few GPUs as were busy (%d of %d)", busy, total), ""
	}
	return "", ""
}

package show

import (
	"cmp"
	"maps"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// gpuText is the GPUs held or asked for: "a100:2".
func gpuText(job *pb.Job) string {
	_, byModel := gpuCounts(job)
	text := ""
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		text += "," + cmp.Or(model, "gpu") + ":" + Digits(byModel[model])
	}
	if text == "" {
		return "-"
	}
	return text[1:]
}

func overSubscribe(job *pb.Job) string {
	switch {
	case !job.GetSpec().GetExclusive() && job.GetSpec().GetExclusiveUser():
		return "USER"
	}
	return "NO" // a job has its CPUs for itself
}

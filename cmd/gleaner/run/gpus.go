package run

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func readGPUCount(long, text string) (int, error) {
	read := spec.ParseGPUs
	if long == jobspec.OptGres {
		read = spec.ParseGres
	}
	requests, err := read(text, pb.GpuScope_GPU_SCOPE_TASK)
	if err != nil {
		return 0, option.Fail(1, "Invalid --%s specification: %w", long, err)
	}
	count := 0
	for _, request := range requests {
		count += int(request.Count)
	}
	return count, nil
}

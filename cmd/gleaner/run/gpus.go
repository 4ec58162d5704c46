package run

import (
	"math"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// gpuBindEach is the kind of --gpu-bind that --gpus-per-task implies.
const gpuBindEach = "per_task:"

// readGPUBind is how many GPUs of its node each task sees; 0 = all. As in
// srun(1) --gpus-per-task, also the job's, has each task see its own, unless
// --gpu-bind says otherwise.
func readGPUBind(values option.Values) (uint32, error) {
	each := uint32(0)
	if text := values.Text(jobspec.OptGPUsPerTask); text != "" {
		requests, err := spec.ParseGPUs(text, pb.GpuScope_GPU_SCOPE_TASK)
		if err != nil {
			return 0, option.Fail(1, "Invalid --%s specification: %w", jobspec.OptGPUsPerTask, err)
		}
		for _, request := range requests {
			each += request.Count
		}
	}
	bind := values.Text(optGPUBind)
	switch count, isEach := strings.CutPrefix(bind, gpuBindEach); {
	case bind == "":
		return each, nil
	case bind == "none":
		return 0, nil
	case isEach:
		number, err := strconv.ParseUint(count, 10, 31)
		if err != nil || number < 1 || number > math.MaxInt32 {
			return 0, option.Fail(1, "Invalid --%s specification: %.64q: type a number of GPUs, as in %s1", optGPUBind, bind, gpuBindEach)
		}
		return uint32(number), nil
	}
	return 0, option.Fail(1, "--%s=%.64s is not supported: none and %sCOUNT are", optGPUBind, bind, gpuBindEach)
}

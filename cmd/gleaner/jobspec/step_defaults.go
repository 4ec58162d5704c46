package jobspec

import (
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

const (
	OptDistribution = "distribution" // -m
	OptGPUBind      = "gpu-bind"
)

// stepOptions are the options of sbatch that are about the steps of the job. The job's
// environment carries them to grun (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES").
func stepOptions() []option.Option {
	return []option.Option{
		{Long: OptDistribution, Short: 'm', Argument: "block|cyclic|plane=size|arbitrary", Environment: variables("DISTRIBUTION"), InScript: true,
			Help: "which tasks of the job's steps run on which node: by the node, in turn, so many at a time in turn, or as the file SLURM_HOSTFILE lists them", Default: "block"},
		{Long: OptGPUBind, Argument: "type", Environment: variables("GPU_BIND"), InScript: true,
			Help: "which of its step's GPUs each task of the job's steps sees, as grun --gpu-bind takes it"},
	}
}

// stepDefaults are the variables by which grun finds these options. What is wrong with
// one is said at submission, not by the first step hours later.
func stepDefaults(values option.Values) ([]string, error) {
	var defaults []string
	if text := values.Text(OptDistribution); text != "" {
		if _, _, err := ReadDistribution(text); err != nil {
			return nil, err
		}
		defaults = append(defaults, "SLURM_DISTRIBUTION="+text)
	}
	if text := values.Text(OptGPUBind); text != "" {
		if _, err := ReadGPUBind(text); err != nil {
			return nil, err
		}
		defaults = append(defaults, "SLURM_GPU_BIND="+text)
	}
	return defaults, nil
}

// ReadDistribution reads --distribution: its kind, and how many tasks a plane has. What is
// said of sockets and cores is left to --cpu-bind.
func ReadDistribution(text string) (kind string, plane int, err error) {
	first, _, _ := strings.Cut(text, ",")
	first, _, _ = strings.Cut(first, ":")
	kind, size, sized := strings.Cut(strings.ToLower(first), "=")
	switch {
	case sized && kind == grant.Plane:
		plane, err := strconv.Atoi(size)
		if err != nil || plane < 1 || plane > grant.MaxStepTasks {
			return "", 0, option.Fail(255, "Invalid --%s specification: %.64q: type a number of tasks, as in plane=2", OptDistribution, text)
		}
		return grant.Plane, plane, nil
	case sized:
	case kind == "" || kind == "*" || kind == grant.Block || kind == "pack" || kind == "nopack":
		return grant.Block, 0, nil
	case kind == grant.Cyclic || kind == grant.Arbitrary:
		return kind, 0, nil
	}
	return "", 0, option.Fail(255, "Invalid --%s specification: %.64q: type block, cyclic, plane=SIZE or arbitrary", OptDistribution, text)
}

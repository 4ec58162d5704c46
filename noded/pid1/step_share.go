package pid1

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// stepGPUs are the GPUs of a step, as CUDA counts them in the container; nil = the
// tasks see what the job has.
type stepGPUs []string

// shareOf says what a step has on this node: its GPUs, and what its tasks learn of its
// part. Without a share it has what the job has.
func (p *process1) shareOf(launch *step.Launch) (gpus stepGPUs, variables []string, err error) {
	share := launch.Share
	if share == nil {
		return nil, nil, nil
	}
	if len(share.CPUs) > 0 {
		variables = append(variables, "SLURM_CPUS_ON_NODE="+strconv.Itoa(len(share.CPUs)))
	}
	visible := listOf(lookup(p.config.StepEnv, "CUDA_VISIBLE_DEVICES"))
	indices := listOf(lookup(p.config.StepEnv, "SLURM_JOB_GPUS"))
	if len(visible) == 0 {
		return nil, Mirror(variables), nil
	}
	gpus = stepGPUs{}
	var ofNode []string
	for _, gpu := range share.GPUs {
		if gpu < 0 || gpu >= len(visible) || gpu >= len(indices) {
			return nil, nil, fmt.Errorf("the step was granted GPU %d of node %s, where the job has %d", gpu, lookup(p.config.StepEnv, "SLURMD_NODENAME"), len(visible))
		}
		gpus = append(gpus, visible[gpu])
		ofNode = append(ofNode, indices[gpu])
	}
	variables = append(variables, "SLURM_GPUS_ON_NODE="+strconv.Itoa(len(gpus)), "CUDA_VISIBLE_DEVICES="+strings.Join(gpus, ","), "GPU_DEVICE_ORDINAL="+strings.Join(gpus, ","))
	if len(ofNode) > 0 {
		variables = append(variables, "SLURM_STEP_GPUS="+strings.Join(ofNode, ","))
	}
	return gpus, Mirror(variables), nil
}

func listOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ofTask are the variables of a task that sees some of its step's GPUs.
func (g stepGPUs) ofTask(task *step.Task) []string {
	if task.GPUs == nil {
		return nil
	}
	var own []string
	for _, gpu := range task.GPUs {
		if gpu < len(g) {
			own = append(own, g[gpu])
		}
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(own, ","), "GPU_DEVICE_ORDINAL=" + strings.Join(own, ",")}
}

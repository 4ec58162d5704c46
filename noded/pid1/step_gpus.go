package pid1

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// stepGPUs is what the tasks of a step learn about GPUs if each task has its own
// (srun(1), --gpu-bind=per_task): all of them, and each by its number on the node.
type stepGPUs struct {
	visible []string // to the job on this node; nil = the tasks see them all
	each    uint32
}

// invalidGRES is Slurm's text.
const invalidGRES = "Invalid generic resource (gres) specification"

// gpusOfStep checks that there are GPUs for all tasks, and says which the step has
// on this node.
func (p *process1) gpusOfStep(launch *step.Launch) (gpus stepGPUs, ofStep []string, err error) {
	if launch.GPUsPerTask == 0 {
		return stepGPUs{}, nil, nil
	}
	visible := listOf(lookup(p.config.StepEnv, "CUDA_VISIBLE_DEVICES"))
	need := uint64(launch.GPUsPerTask) * uint64(len(launch.Tasks))
	if need > uint64(len(visible)) {
		return stepGPUs{}, nil, fmt.Errorf("%s: %d tasks with %d GPUs each need %d, and the job has %d on node %s; start fewer tasks, or let all see all GPUs with --gpu-bind=none",
			invalidGRES, len(launch.Tasks), launch.GPUsPerTask, need, len(visible), lookup(p.config.StepEnv, "SLURMD_NODENAME"))
	}
	ofStep = []string{"SLURM_GPUS_ON_NODE=" + strconv.FormatUint(need, 10)}
	if indices := listOf(lookup(p.config.StepEnv, "SLURM_JOB_GPUS")); uint64(len(indices)) >= need {
		ofStep = append(ofStep, "SLURM_STEP_GPUS="+strings.Join(indices[:need], ","))
	}
	return stepGPUs{visible: visible, each: launch.GPUsPerTask}, Mirror(ofStep), nil
}

func listOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ofTask are the variables of a task that is the given one of its node's.
func (g stepGPUs) ofTask(local uint32) []string {
	first := uint64(local) * uint64(g.each)
	last := first + uint64(g.each)
	if g.each == 0 || last > uint64(len(g.visible)) {
		return nil
	}
	return []string{"CUDA_VISIBLE_DEVICES=" + strings.Join(g.visible[first:last], ",")}
}

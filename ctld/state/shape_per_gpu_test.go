package state

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestPerGPU: what follows from the forms that go by GPUs and by tasks, as
// sbatch(1) describes them.
func TestPerGPU(t *testing.T) {
	const node, job, task = pb.GpuScope_GPU_SCOPE_NODE, pb.GpuScope_GPU_SCOPE_JOB, pb.GpuScope_GPU_SCOPE_TASK
	gpus := func(scope pb.GpuScope, count uint32) []GPURequest { return []GPURequest{{Scope: scope, Count: count}} }
	both := func(one, other []GPURequest) []GPURequest { return append(one, other...) }
	for name, test := range map[string]struct {
		asked Spec
		want  string // tasks, per node, nodes, GPUs by task, tasks by GPU; or the beginning of the refusal
	}{
		"-n4 --gpus-per-task=2":                                   {Spec{Tasks: 4, GPUs: gpus(task, 2)}, "4 0 0-0 2 0"},
		"--gpus=8 --gpus-per-task=2":                              {Spec{GPUs: both(gpus(job, 8), gpus(task, 2))}, "4 0 0-0 2 0"},
		"--gpus=8 --gpus-per-task=3":                              {Spec{GPUs: both(gpus(job, 8), gpus(task, 3))}, "8 GPUs in all cannot be 3 for each task"},
		"-n3 --gpus=8 --gpus-per-task=2":                          {Spec{Tasks: 3, GPUs: both(gpus(job, 8), gpus(task, 2))}, "3 tasks with 2 GPUs each need 6 GPUs, not 8"},
		"-N2 --ntasks-per-node=4 --gpus-per-task=1":               {Spec{MinNodes: 2, MaxNodes: 2, TasksPerNode: 4, GPUs: gpus(task, 1)}, "8 4 2-2 1 0"},
		"-N2 --gpus-per-node=4 --gpus-per-task=2":                 {Spec{MinNodes: 2, GPUs: both(gpus(node, 4), gpus(task, 2))}, "4 2 2-2 2 0"},
		"-n6 --gpus-per-node=4 --gpus-per-task=2":                 {Spec{Tasks: 6, GPUs: both(gpus(node, 4), gpus(task, 2))}, "6 2 3-3 2 0"},
		"-n5 --gpus-per-node=4 --gpus-per-task=2":                 {Spec{Tasks: 5, GPUs: both(gpus(node, 4), gpus(task, 2))}, "5 tasks are not 2 on each node"},
		"--gpus-per-node=4 --gpus-per-task=3":                     {Spec{Tasks: 4, GPUs: both(gpus(node, 4), gpus(task, 3))}, "4 GPUs on each node cannot be 3 for each task"},
		"--ntasks-per-node=4 --gpus-per-node=4 --gpus-per-task=2": {Spec{TasksPerNode: 4, GPUs: both(gpus(node, 4), gpus(task, 2))}, "4 GPUs on each node, 2 for each task, are 2 tasks on each, not 4"},
		"--gpus=4 -N2 --gpus-per-node=4":                          {Spec{MinNodes: 2, MaxNodes: 2, GPUs: both(gpus(job, 4), gpus(node, 4))}, "--gpus=4 with --gpus-per-node=4 is 1 node, and --nodes asks for 2: type --gpus=8"},
		"-n9 -N2 --ntasks-per-node=4":                             {Spec{Tasks: 9, MinNodes: 2, MaxNodes: 2, TasksPerNode: 4}, "--ntasks=9 is more than --nodes=2 with --ntasks-per-node=4 have, which is 8: type --nodes=3"},
		"-n3 -N2 --ntasks-per-node=4":                             {Spec{Tasks: 3, MinNodes: 2, MaxNodes: 2, TasksPerNode: 4}, "3 4 2-2 0 0"},
		"-N2 -w n[1-3]":                                           {Spec{MinNodes: 2, MaxNodes: 2, NodeList: "n[1-3]"}, "--nodelist names 3 nodes, and --nodes allows 2: type --nodes=3"},
		"--gpus=16 -N2-3 --gpus-per-node=4":                       {Spec{MinNodes: 2, MaxNodes: 3, GPUs: both(gpus(job, 16), gpus(node, 4))}, "--gpus=16 with --gpus-per-node=4 is 4 nodes, and --nodes allows 3: type --nodes=4"},
		"--gpus-per-task=1":                                       {Spec{GPUs: gpus(task, 1)}, "--gpus-per-task needs a number of tasks"},
		"-N2-4 --gpus-per-task=1":                                 {Spec{MinNodes: 2, MaxNodes: 4, GPUs: gpus(task, 1)}, "--gpus-per-task needs a number of tasks"},
		"-n8 --ntasks-per-gpu=4":                                  {Spec{Tasks: 8, TasksPerGPU: 4}, "8 0 0-0 0 4"},
		"-n9 --ntasks-per-gpu=4":                                  {Spec{Tasks: 9, TasksPerGPU: 4}, "9 tasks cannot be 4 on each GPU"},
		"--gpus=3 --ntasks-per-gpu=2":                             {Spec{TasksPerGPU: 2, GPUs: gpus(job, 3)}, "6 0 0-0 0 2"},
		"-n4 --gpus=3 --ntasks-per-gpu=2":                         {Spec{Tasks: 4, TasksPerGPU: 2, GPUs: gpus(job, 3)}, "3 GPUs with 2 tasks each make 6 tasks, not 4"},
		"-N2 --gpus-per-node=4 --ntasks-per-gpu=2":                {Spec{MinNodes: 2, TasksPerGPU: 2, GPUs: gpus(node, 4)}, "16 8 2-2 0 2"},
		"--gpus-per-node=4 --ntasks-per-gpu=2":                    {Spec{TasksPerGPU: 2, GPUs: gpus(node, 4)}, "8 8 1-1 0 2"},
		"--ntasks-per-gpu=2":                                      {Spec{TasksPerGPU: 2}, "--ntasks-per-gpu needs a number of tasks or of GPUs"},
		"-N1-2 --gpus=4 --ntasks-per-gpu=2":                       {Spec{MinNodes: 1, MaxNodes: 2, TasksPerGPU: 2, GPUs: gpus(job, 4)}, "--ntasks-per-gpu does not go with a range of nodes"},
		"--ntasks-per-gpu=2 --gpus-per-task=1":                    {Spec{Tasks: 2, TasksPerGPU: 2, GPUs: gpus(task, 1)}, "--ntasks-per-gpu and --gpus-per-task exclude each other"},
		"--ntasks-per-gpu=2 --ntasks-per-node=2":                  {Spec{Tasks: 2, TasksPerGPU: 2, TasksPerNode: 2}, "--ntasks-per-gpu and --ntasks-per-node exclude each other"},
		"--gpus=1000000 --ntasks-per-gpu=1000":                    {Spec{TasksPerGPU: 1000, GPUs: gpus(job, 100000)}, "100000000 tasks are too many"},
		"--cpus-per-gpu=2":                                        {Spec{CPUsPerGPU: 2}, "--cpus-per-gpu counts by GPUs, and none are asked for"},
		"--cpus-per-gpu=2 -c2":                                    {Spec{CPUsPerGPU: 2, CPUsPerTask: 2, GPUs: gpus(job, 1)}, "--cpus-per-gpu and --cpus-per-task exclude each other"},
		"--mem-per-gpu=1":                                         {Spec{MemoryPerGPU: 1}, "--mem-per-gpu counts by GPUs, and none are asked for"},
		"--mem=1 --mem-per-gpu=1":                                 {Spec{MemoryPerNode: 1, MemoryPerGPU: 1, GPUs: gpus(job, 1)}, "--mem, --mem-per-cpu and --mem-per-gpu exclude each other"},
		"--mem=0 --mem-per-cpu=1":                                 {Spec{AllMemory: true, MemoryPerCPU: 1}, "--mem, --mem-per-cpu and --mem-per-gpu exclude each other"},
		"--gpus=2 --cpus-per-gpu=3":                               {Spec{CPUsPerGPU: 3, GPUs: gpus(job, 2)}, "0 0 0-0 0 0"},
	} {
		got := ""
		implied := test.asked
		implyTasks(&implied)
		for _, asked := range []Spec{test.asked, implied} { // what was stored means the same again
			shape, err := shapeOf(&asked, &Owner{UID: 7})
			if err != nil {
				got = err.Error()
			} else {
				r := &shape.Request
				got = fmt.Sprintf("%d %d %d-%d %d %d", r.Tasks, r.TasksPerNode, r.MinNodes, r.MaxNodes, r.GPUsPerTask, r.TasksPerGPU)
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("%s: %s, want %s", name, got, test.want)
			}
		}
	}
}

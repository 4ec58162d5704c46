package prepare

import (
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// environment answers the script's variables that start with SLURM or are
// named, sorted, for an order changed from one task on one node.
func environment(change func(*pb.StartAlloc), others ...string) []string {
	order := &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: 12, Epoch: 2}, Id: &pb.JobId{Job: 12},
		Spec: &pb.JobSpec{
			Name: "train", WorkDirectory: "/home/ann", SubmitHost: "login1",
			Environment: []string{"HOME=/elsewhere", "SLURM_NTASKS=99", "GLEANER_NTASKS=99", "CUDA_VISIBLE_DEVICES=7", "SLURM_MPI_TYPE=none"},
		},
		Owner:      &pb.Identity{Uid: 1000, Gid: 100, User: "ann", Home: "/home/ann", Shell: "/bin/bash"},
		Allocation: []*pb.NodeAllocation{{Node: "n1", CpuIds: []uint32{0, 1}, MemoryBytes: 512 << 20}},
		Node:       "n1", BatchHost: "n1", Partition: "main", ClusterName: "test",
	}
	change(order)
	p := &Job{Order: order, Own: order.Allocation[0], User: userOf(order.Owner), Settings: &bundle.Settings{}}
	var shown []string
	for _, entry := range p.batchEnvironment() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "SLURM") || slices.Contains(others, name) {
			shown = append(shown, strings.TrimPrefix(entry, "SLURM_"))
		}
	}
	slices.Sort(shown)
	return shown
}

func compare(t *testing.T, got []string, want string) {
	t.Helper()
	wanted := strings.Fields(want)
	slices.Sort(wanted)
	if !slices.Equal(got, wanted) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
}

// Without -n, -N and -c: what was not asked for is not set.
func TestBatchEnvironment(t *testing.T) {
	got := environment(func(*pb.StartAlloc) {}, "HOME", "USER", "PATH", "SHELL", "TMPDIR", "CUDA_VISIBLE_DEVICES",
		"GLEANER_JOB_ID", "GLEANER_NTASKS", "GLEANER_CONTROLLER", "GLEANER_STEP_SOCKET", "HOSTNAME")
	compare(t, got, `JOB_ID=12 JOBID=12 JOB_NAME=train JOB_NODELIST=n1 NODELIST=n1 JOB_NUM_NODES=1 NNODES=1 TASKS_PER_NODE=2
		JOB_CPUS_PER_NODE=2 CPUS_ON_NODE=2 JOB_PARTITION=main JOB_QOS=normal JOB_UID=1000 JOB_GID=100 JOB_USER=ann JOB_GROUP=100 OOM_KILL_STEP=0
		CLUSTER_NAME=test WORKING_CLUSTER=test SUBMIT_DIR=/home/ann SUBMIT_HOST=login1 NODEID=0 PROCID=0 LOCALID=0 GTIDS=0
		PRIO_PROCESS=0 NODE_ALIASES=(null) TOPOLOGY_ADDR=n1 TOPOLOGY_ADDR_PATTERN=node SLURMD_NODENAME=n1 MEM_PER_CPU=256 MPI_TYPE=none
		HOME=/elsewhere USER=ann PATH=/usr/local/bin:/usr/bin:/bin SHELL=/bin/bash TMPDIR=/tmp HOSTNAME=n1 GLEANER_JOB_ID=12
		GLEANER_CONTROLLER=unix:///run/gleaner/job.sock GLEANER_STEP_SOCKET=/run/gleaner/step.sock`)
}

// chosen keeps the variables that a test is about.
func chosen(entries []string, names string) []string {
	return slices.DeleteFunc(entries, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return !slices.Contains(strings.Fields(names), name)
	})
}

func TestBatchEnvironmentAsAsked(t *testing.T) {
	const tasks = "NTASKS NPROCS NTASKS_PER_NODE CPUS_PER_TASK TASKS_PER_NODE JOB_CPUS_PER_NODE JOB_NODELIST NNODES MEM_PER_NODE MEM_PER_CPU"
	two := func(o *pb.StartAlloc, n uint32) {
		o.Allocation[0].Tasks = n
		o.Allocation = append(o.Allocation, &pb.NodeAllocation{Node: "n2", CpuIds: []uint32{0, 1}, Tasks: n})
	}
	compare(t, chosen(environment(func(o *pb.StartAlloc) { two(o, 1); o.Spec.MinNodes = 2 }), tasks),
		"TASKS_PER_NODE=2(x2) JOB_CPUS_PER_NODE=2(x2) JOB_NODELIST=n[1-2] NNODES=2 MEM_PER_CPU=256")
	compare(t, chosen(environment(func(o *pb.StartAlloc) { two(o, 2); o.Spec.MinNodes, o.Spec.TasksPerNode = 2, 2 }), tasks),
		"NTASKS=4 NPROCS=4 NTASKS_PER_NODE=2 TASKS_PER_NODE=2(x2) JOB_CPUS_PER_NODE=2(x2) JOB_NODELIST=n[1-2] NNODES=2 MEM_PER_CPU=256")
	compare(t, chosen(environment(func(o *pb.StartAlloc) {
		o.Allocation[0].Tasks = 3
		o.Spec.Tasks, o.Spec.CpusPerTask, o.Spec.MemoryPerNodeBytes = 3, 2, 300<<20
	}), tasks), "NTASKS=3 NPROCS=3 CPUS_PER_TASK=2 TASKS_PER_NODE=3 JOB_CPUS_PER_NODE=2 JOB_NODELIST=n1 NNODES=1 MEM_PER_NODE=300")
	task := uint32(4)
	compare(t, chosen(environment(func(o *pb.StartAlloc) {
		o.ArrayJobId, o.RestartCount, o.Spec.ExportOption = 10, 1, "NONE"
		o.Id.ArrayTask = &task
		o.Array = &pb.ArraySpec{Ranges: []*pb.ArrayRange{{First: 2, Last: 9, Step: 2}}}
	}), "JOB_ID ARRAY_JOB_ID ARRAY_TASK_ID ARRAY_TASK_COUNT ARRAY_TASK_MIN ARRAY_TASK_MAX ARRAY_TASK_STEP RESTART_COUNT EXPORT_ENV"),
		"JOB_ID=12 ARRAY_JOB_ID=10 ARRAY_TASK_ID=4 ARRAY_TASK_COUNT=4 ARRAY_TASK_MIN=2 ARRAY_TASK_MAX=8 ARRAY_TASK_STEP=2 RESTART_COUNT=1 EXPORT_ENV=NONE")
	compare(t, chosen(environment(func(o *pb.StartAlloc) {
		o.Spec.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_JOB, Count: 2, Model: "a100"}}
		o.Allocation[0].Devices = []*pb.AllocatedDevice{{Index: 1}, {Index: 3}}
	}, "CUDA_VISIBLE_DEVICES"), "CUDA_VISIBLE_DEVICES JOB_GPUS GPUS_ON_NODE GPUS"),
		"CUDA_VISIBLE_DEVICES=0,1 JOB_GPUS=1,3 GPUS_ON_NODE=2 GPUS=a100:2")
	compare(t, chosen(environment(func(o *pb.StartAlloc) {
		o.Spec.Gpus = []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_TASK, Count: 2}}
		o.Spec.Tasks, o.Spec.CpusPerGpu, o.Spec.MemoryPerGpuBytes, o.Spec.TasksPerGpu = 1, 3, 5<<30, 4
	}), "NTASKS CPUS_PER_TASK CPUS_PER_GPU MEM_PER_GPU MEM_PER_CPU GPUS GPUS_PER_NODE GPUS_PER_TASK NTASKS_PER_GPU"),
		"NTASKS=1 CPUS_PER_GPU=3 MEM_PER_GPU=5120 GPUS_PER_TASK=2 NTASKS_PER_GPU=4")
}

// When the run started and ends by its limit, and what it asked for besides.
func TestBatchEnvironmentOfTheRun(t *testing.T) {
	const names = "JOB_START_TIME JOB_END_TIME JOB_LICENSES JOB_DEPENDENCY JOB_RESERVATION JOB_GROUP TASKS_PER_NODE"
	compare(t, chosen(environment(func(o *pb.StartAlloc) {
		o.StartMs, o.TimeLimitS, o.Owner.Group = 1_700_000_000_999, 3600, "users"
		o.Spec.Licenses, o.Spec.Dependency, o.Spec.Reservations = "matlab:2", "afterok:3", []string{"maint"}
		o.Spec.CpusPerTask = 2
	}), names), "JOB_START_TIME=1700000000 JOB_END_TIME=1700003600 JOB_LICENSES=matlab:2 JOB_DEPENDENCY=afterok:3 JOB_RESERVATION=maint JOB_GROUP=users TASKS_PER_NODE=1")
	compare(t, chosen(environment(func(o *pb.StartAlloc) { o.StartMs, o.TimeLimitS = 1_700_000_000_000, spec.Unlimited }), names),
		"JOB_START_TIME=1700000000 JOB_END_TIME=1731536000 JOB_GROUP=100 TASKS_PER_NODE=2")
}

// The commands under Slurm's names come before the rest of PATH.
func TestSlurmNames(t *testing.T) {
	j := &Job{Settings: &bundle.Settings{SlurmDir: "/opt/slurm"}}
	got := j.withSlurmNames([]string{"PATHS=1", "PATH=/usr/bin"})
	if got = j.withSlurmNames(got); !slices.Equal(got, []string{"PATHS=1", "PATH=/opt/slurm:/usr/bin"}) {
		t.Error(got)
	}
}

func TestRepeats(t *testing.T) {
	for want, values := range map[string][]uint32{"": nil, "1": {1}, "2(x3),1": {2, 2, 2, 1}, "1,2": {1, 2}} {
		if got := repeats(values); got != want {
			t.Errorf("repeats(%v) = %q, want %q", values, got, want)
		}
	}
}

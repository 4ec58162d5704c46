package shim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// defaultPath is PATH for a job whose submitter gave none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// managed are the variables that describe one job. Those of a job inside
// which this one was submitted must not be taken for its own.
var managed = []string{
	"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "GLEANER_TLS_DIR", "SLURMD_NODENAME",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MAX",
	"SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_CHECKPOINT_DIR", "SLURM_CPUS_PER_GPU", "SLURM_CPUS_PER_TASK", "SLURM_DISTRIBUTION",
	"SLURM_EXPORT_ENV", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GTIDS", "SLURM_JOB_ACCOUNT",
	"SLURM_JOB_GPUS", "SLURM_JOB_QOS", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
	"SLURM_NPROCS", "SLURM_NTASKS", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_NODE", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_HOST",
	"SLURM_SRUN_COMM_PORT", "SLURM_STEPID", "SLURM_STEP_GPUS", "SLURM_STEP_ID", "SLURM_STEP_LAUNCHER_PORT",
	"SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASK_PID", "SLURM_UMASK",
}

// variables collects NAME=VALUE.
type variables []string

func (v *variables) set(name, value string) { *v = append(*v, name+"="+value) }

func (v *variables) setNumber(name string, value uint64) {
	v.set(name, strconv.FormatUint(value, 10))
}

// batchEnvironment is what the script sees: what its submitter gave, and over
// it what Slurm sets in a batch script, each also under GLEANER's own name.
func (p *part) batchEnvironment() []string {
	base := inherited(p.order.Spec.GetEnvironment())
	var v variables
	p.addJob(&v)
	p.addTasks(&v)
	p.addMemory(&v)
	p.addArray(&v)
	p.addRequestedGPUs(&v)
	if dir, err := p.checkpointDir(); err == nil && dir != "" {
		v.set(checkpointVariable, dir)
	}
	v = append(v, p.stepEnvironment()...)
	v.set("SLURM_PROCID", "0")
	v.set("SLURM_LOCALID", "0")
	v.set("SLURM_GTIDS", "0")
	v.set("SLURM_PRIO_PROCESS", "0")
	v.set("ENVIRONMENT", "BATCH")
	return pid1.Mirror(pid1.Overlay(p.personal(), base, v))
}

// stepEnvironment is what differs between the nodes of a job.
func (p *part) stepEnvironment() []string {
	var v variables
	v.setNumber("SLURM_NODEID", uint64(p.index))
	v.set("SLURMD_NODENAME", p.order.Node)
	v.set("SLURM_TOPOLOGY_ADDR", p.order.Node)
	v.set("SLURM_TOPOLOGY_ADDR_PATTERN", "node")
	v.setNumber("SLURM_CPUS_ON_NODE", uint64(len(p.own.CpuIds)))
	v.set("HOSTNAME", p.order.Node)
	v.set("TMPDIR", "/tmp")
	v.set("GLEANER_CONTROLLER", "unix://"+pid1.Dir+"/"+jobSocket)
	v.set("GLEANER_STEP_SOCKET", pid1.Dir+"/"+pid1.StepSocket)
	if devices := p.own.Devices; len(devices) > 0 {
		// Only the job's own GPUs exist in its container, so CUDA counts them
		// from 0, whatever their numbers on the node.
		visible, indices := make([]string, len(devices)), make([]string, len(devices))
		for i, d := range devices {
			visible[i], indices[i] = strconv.Itoa(i), strconv.FormatUint(uint64(d.Index), 10)
		}
		v.set("CUDA_VISIBLE_DEVICES", strings.Join(visible, ","))
		v.set("SLURM_JOB_GPUS", strings.Join(indices, ","))
		v.setNumber("SLURM_GPUS_ON_NODE", uint64(len(devices)))
	}
	return pid1.Mirror(v)
}

// inherited is what the submitter gave, less what described another job.
func inherited(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		if rest, ok := strings.CutPrefix(name, "GLEANER_"); ok && name != "GLEANER_TLS_DIR" {
			name = "SLURM_" + rest
		}
		return slices.Contains(managed, name)
	})
}

// personal is who the user is, for submitters that did not say.
func (p *part) personal() []string {
	var v variables
	v.set("HOME", orElse(p.user.Home, "/"))
	v.set("USER", p.userName())
	v.set("LOGNAME", p.userName())
	v.set("SHELL", orElse(p.user.Shell, "/bin/sh"))
	v.set("PATH", defaultPath)
	return v
}

func (p *part) addJob(v *variables) {
	o, s := p.order, p.order.Spec
	names := make([]string, len(o.Allocation))
	cpus := make([]uint32, len(o.Allocation))
	for i, a := range o.Allocation {
		names[i], cpus[i] = a.Node, uint32(len(a.CpuIds))
	}
	nodeList := spec.FormatHostList(names)
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		v.setNumber(name, uint64(o.Part.Job))
	}
	v.set("SLURM_JOB_NAME", s.GetName())
	v.set("SLURM_JOB_NODELIST", nodeList)
	v.set("SLURM_NODELIST", nodeList)
	v.setNumber("SLURM_JOB_NUM_NODES", uint64(len(names)))
	v.setNumber("SLURM_NNODES", uint64(len(names)))
	v.set("SLURM_JOB_CPUS_PER_NODE", repeats(cpus))
	v.set("SLURM_JOB_PARTITION", o.Partition)
	if s.GetAccount() != "" {
		v.set("SLURM_JOB_ACCOUNT", s.GetAccount())
	}
	v.set("SLURM_JOB_QOS", orElse(s.GetQos(), "normal"))
	v.setNumber("SLURM_JOB_UID", uint64(p.user.UID))
	v.setNumber("SLURM_JOB_GID", uint64(p.user.GID))
	v.set("SLURM_JOB_USER", p.userName())
	v.set("SLURM_CLUSTER_NAME", o.ClusterName)
	v.set("SLURM_WORKING_CLUSTER", o.ClusterName)
	v.set("SLURM_SUBMIT_DIR", submitDir(s))
	v.set("SLURM_SUBMIT_HOST", orElse(s.GetSubmitHost(), p.order.Node))
	v.set("SLURM_NODE_ALIASES", "(null)")
	if s.GetExportOption() != "" {
		v.set("SLURM_EXPORT_ENV", s.GetExportOption())
	}
	if o.RestartCount > 0 {
		v.setNumber("SLURM_RESTART_COUNT", uint64(o.RestartCount))
	}
}

// submitDir: a client that changed the work directory says in the environment
// where it was called.
func submitDir(s *pb.JobSpec) string {
	for _, entry := range s.GetEnvironment() {
		if dir, ok := strings.CutPrefix(entry, "SLURM_SUBMIT_DIR="); ok {
			return dir
		}
	}
	return s.GetWorkDirectory()
}

// addTasks: what was not asked for is not set.
func (p *part) addTasks(v *variables) {
	s := p.order.Spec
	tasks := make([]uint32, len(p.order.Allocation))
	sum := uint64(0)
	for i, a := range p.order.Allocation {
		tasks[i] = max(a.Tasks, 1)
		sum += uint64(tasks[i])
	}
	v.set("SLURM_TASKS_PER_NODE", repeats(tasks))
	if s.GetTasks() > 0 {
		sum = uint64(s.GetTasks())
	}
	if s.GetTasks() > 0 || s.GetTasksPerNode() > 0 {
		v.setNumber("SLURM_NTASKS", sum)
		v.setNumber("SLURM_NPROCS", sum)
	}
	if s.GetTasksPerNode() > 0 {
		v.setNumber("SLURM_NTASKS_PER_NODE", uint64(s.GetTasksPerNode()))
	}
	if s.GetCpusPerTask() > 0 {
		v.setNumber("SLURM_CPUS_PER_TASK", uint64(s.GetCpusPerTask()))
	}
}

// addMemory: in MiB, per node or per GPU if it was asked for so, else per CPU.
func (p *part) addMemory(v *variables) {
	const mib = 1 << 20
	s := p.order.Spec
	switch {
	case s.GetMemoryPerNodeBytes() > 0:
		v.setNumber("SLURM_MEM_PER_NODE", s.GetMemoryPerNodeBytes()/mib)
	case s.GetMemoryPerGpuBytes() > 0:
		v.setNumber("SLURM_MEM_PER_GPU", s.GetMemoryPerGpuBytes()/mib)
	case s.GetMemoryPerCpuBytes() > 0:
		v.setNumber("SLURM_MEM_PER_CPU", s.GetMemoryPerCpuBytes()/mib)
	case p.own.MemoryBytes > 0 && len(p.own.CpuIds) > 0:
		v.setNumber("SLURM_MEM_PER_CPU", p.own.MemoryBytes/uint64(len(p.own.CpuIds))/mib)
	}
}

func (p *part) addArray(v *variables) {
	o := p.order
	if o.ArrayJobId == 0 {
		return
	}
	v.setNumber("SLURM_ARRAY_JOB_ID", uint64(o.ArrayJobId))
	v.setNumber("SLURM_ARRAY_TASK_ID", uint64(o.GetId().GetArrayTask()))
	ranges := o.Array.GetRanges()
	if len(ranges) == 0 {
		return
	}
	step := uint64(1)
	if len(ranges) == 1 {
		step = uint64(max(ranges[0].Step, 1))
	}
	last := ranges[len(ranges)-1]
	highest := last.Last - (last.Last-last.First)%max(last.Step, 1)
	v.setNumber("SLURM_ARRAY_TASK_COUNT", uint64(spec.CountTasks(ranges)))
	v.setNumber("SLURM_ARRAY_TASK_MIN", uint64(ranges[0].First))
	v.setNumber("SLURM_ARRAY_TASK_MAX", uint64(highest))
	v.setNumber("SLURM_ARRAY_TASK_STEP", step)
}

func (p *part) addRequestedGPUs(v *variables) {
	for _, g := range p.order.Spec.GetGpus() {
		text := strconv.FormatUint(uint64(g.Count), 10)
		if g.Model != "" {
			text = g.Model + ":" + text
		}
		switch g.Scope {
		case pb.GpuScope_GPU_SCOPE_JOB:
			v.set("SLURM_GPUS", text)
		case pb.GpuScope_GPU_SCOPE_NODE:
			v.set("SLURM_GPUS_PER_NODE", text)
		case pb.GpuScope_GPU_SCOPE_TASK:
			v.set("SLURM_GPUS_PER_TASK", text)
		}
	}
	s := p.order.Spec
	if s.GetCpusPerGpu() > 0 {
		v.setNumber("SLURM_CPUS_PER_GPU", uint64(s.GetCpusPerGpu()))
	}
	if s.GetTasksPerGpu() > 0 {
		v.setNumber("SLURM_NTASKS_PER_GPU", uint64(s.GetTasksPerGpu()))
	}
}

// repeats writes a list as Slurm does: "2(x3),1".
func repeats(values []uint32) string {
	var parts []string
	for i := 0; i < len(values); {
		n := i
		for n < len(values) && values[n] == values[i] {
			n++
		}
		text := strconv.FormatUint(uint64(values[i]), 10)
		if n-i > 1 {
			text = fmt.Sprintf("%s(x%d)", text, n-i)
		}
		parts = append(parts, text)
		i = n
	}
	return strings.Join(parts, ",")
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

package prepare

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// defaultPath is PATH for a job whose submitter gave none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// managed are the variables that describe one job. Those of a job inside
// which this one was submitted must not be taken for its own.
var managed = []string{
	"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "GLEANER_NODED", "GLEANER_TLS_DIR", "SLURMD_NODENAME",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MAX",
	"SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_CHECKPOINT_DIR", "SLURM_CPUS_PER_GPU", "SLURM_CPUS_PER_TASK",
	"SLURM_EXPORT_ENV", "SLURM_JOB_DEPENDENCY", "SLURM_JOB_END_TIME", "SLURM_JOB_LICENSES", "SLURM_JOB_RESERVATION", "SLURM_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GTIDS", "SLURM_JOB_ACCOUNT",
	"SLURM_JOB_GPUS", "SLURM_JOB_QOS", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
	"SLURM_NPROCS", "SLURM_NTASKS", "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_NODE", "SLURM_RESTART_COUNT", "SLURM_SRUN_COMM_HOST",
	"SLURM_SRUN_COMM_PORT", "SLURM_STEPID", "SLURM_STEP_GPUS", "SLURM_STEP_ID", "SLURM_STEP_PORT", "SLURM_STEP_LAUNCHER_PORT",
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
func (j *Job) batchEnvironment() []string {
	base := inherited(j.Order.Spec.GetEnvironment())
	var v variables
	j.addJob(&v)
	j.addTasks(&v)
	j.addMemory(&v)
	j.addArray(&v)
	j.addRequestedGPUs(&v)
	if dir, err := j.checkpointDir(); err == nil && dir != "" {
		v.set(checkpointVariable, dir)
	}
	v = append(v, j.stepEnvironment()...)
	v.set("SLURM_PROCID", "0")
	v.set("SLURM_LOCALID", "0")
	v.set("SLURM_GTIDS", "0")
	v.set("SLURM_PRIO_PROCESS", "0")
	v.set("ENVIRONMENT", "BATCH")
	return pid1.Mirror(j.withSlurmNames(pid1.Overlay(j.inImage(pid1.Overlay(j.personal(), base)), v)))
}

// withSlurmNames puts the commands under Slurm's names before the rest of PATH, so
// that what was written for Slurm finds these and none that the site still has.
func (j *Job) withSlurmNames(environment []string) []string {
	dir := j.Settings.SlurmDir
	for i, entry := range environment {
		if path, is := strings.CutPrefix(entry, "PATH="); is && dir != "" && path != dir && !strings.HasPrefix(path, dir+":") {
			environment[i] = "PATH=" + dir + ":" + path
		}
	}
	return environment
}

// stepEnvironment is what differs between the nodes of a job.
func (j *Job) stepEnvironment() []string {
	var v variables
	v.setNumber("SLURM_NODEID", uint64(j.Index))
	v.set("SLURMD_NODENAME", j.Order.Node)
	v.set("SLURM_TOPOLOGY_ADDR", j.Order.Node)
	v.set("SLURM_TOPOLOGY_ADDR_PATTERN", "node")
	v.setNumber("SLURM_CPUS_ON_NODE", uint64(len(j.Own.CpuIds)))
	v.set("HOSTNAME", j.Order.Node)
	v.set("TMPDIR", "/tmp")
	v.set("GLEANER_CONTROLLER", "unix://"+pid1.Dir+"/"+bundle.JobSocket)
	v.set("GLEANER_STEP_SOCKET", pid1.Dir+"/"+pid1.StepSocket)
	if j.network().IsValid() {
		v.setNumber("GLEANER_STEP_PORT", stepPort)
	}
	if devices := j.Own.Devices; len(devices) > 0 {
		// Only the job's own GPUs exist in its container, so CUDA counts them
		// from 0, whatever their numbers on the node.
		visible, indices := make([]string, len(devices)), make([]string, len(devices))
		for i, d := range devices {
			visible[i], indices[i] = strconv.Itoa(i), strconv.FormatUint(uint64(d.Index), 10)
		}
		v.set("CUDA_VISIBLE_DEVICES", strings.Join(visible, ","))
		v.set("GPU_DEVICE_ORDINAL", strings.Join(visible, ",")) // what OpenCL programs read
		v.set("SLURM_JOB_GPUS", strings.Join(indices, ","))
		v.setNumber("SLURM_GPUS_ON_NODE", uint64(len(devices)))
	}
	return pid1.Mirror(v)
}

// inherited is what the submitter gave, less what described another job.
func inherited(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		if rest, ok := strings.CutPrefix(name, "GLEANER_"); ok && name != "GLEANER_TLS_DIR" && name != "GLEANER_NODED" {
			name = "SLURM_" + rest
		}
		return slices.Contains(managed, name)
	})
}

// personal is who the user is, for submitters that did not say.
func (j *Job) personal() []string {
	var v variables
	v.set("HOME", orElse(j.User.Home, "/"))
	v.set("USER", j.userName())
	v.set("LOGNAME", j.userName())
	v.set("SHELL", orElse(j.User.Shell, "/bin/sh"))
	v.set("PATH", defaultPath)
	return v
}

func (j *Job) addJob(v *variables) {
	o, s := j.Order, j.Order.Spec
	names := make([]string, len(o.Allocation))
	cpus := make([]uint32, len(o.Allocation))
	for i, a := range o.Allocation {
		names[i], cpus[i] = a.Node, uint32(len(a.CpuIds))
	}
	nodeList := spec.FormatHostList(names)
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		v.setNumber(name, uint64(o.Alloc.Job))
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
	v.setNumber("SLURM_JOB_UID", uint64(j.User.UID))
	v.setNumber("SLURM_JOB_GID", uint64(j.User.GID))
	v.set("SLURM_JOB_USER", j.userName())
	v.set("SLURM_JOB_GROUP", orElse(o.GetOwner().GetGroup(), strconv.FormatUint(uint64(j.User.GID), 10)))
	j.addTimes(v)
	v.set("SLURM_OOM_KILL_STEP", "0")
	for _, asked := range [][2]string{
		{"SLURM_JOB_DEPENDENCY", s.GetDependency()}, {"SLURM_JOB_LICENSES", s.GetLicenses()}, {"SLURM_JOB_RESERVATION", strings.Join(s.GetReservations(), ",")},
	} {
		if asked[1] != "" {
			v.set(asked[0], asked[1])
		}
	}
	v.set("SLURM_CLUSTER_NAME", o.ClusterName)
	v.set("SLURM_WORKING_CLUSTER", o.ClusterName)
	v.set("SLURM_SUBMIT_DIR", submitDir(s))
	v.set("SLURM_SUBMIT_HOST", orElse(s.GetSubmitHost(), j.Order.Node))
	v.set("SLURM_NODE_ALIASES", "(null)")
	if s.GetExportOption() != "" {
		v.set("SLURM_EXPORT_ENV", s.GetExportOption())
	}
	if o.RestartCount > 0 {
		v.setNumber("SLURM_RESTART_COUNT", uint64(o.RestartCount))
	}
}

// yearS is how long Slurm says that a run without a time limit will take.
const yearS = 365 * 24 * 60 * 60

// addTimes: when the run started, and when its time limit ends it, in seconds
// since 1970.
func (j *Job) addTimes(v *variables) {
	o := j.Order
	if o.StartMs <= 0 {
		return
	}
	v.setNumber("SLURM_JOB_START_TIME", uint64(o.StartMs/1000))
	limitS := uint64(o.TimeLimitS)
	if limitS == 0 || o.TimeLimitS == spec.Unlimited {
		limitS = yearS
	}
	v.setNumber("SLURM_JOB_END_TIME", uint64(o.StartMs/1000)+limitS)
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

// addTasks: what was not asked for is not set. Without a number of tasks a node has
// as many as its CPUs are enough for, as in Slurm.
func (j *Job) addTasks(v *variables) {
	s := j.Order.Spec
	tasks := make([]uint32, len(j.Order.Allocation))
	sum := uint64(0)
	for i, a := range j.Order.Allocation {
		tasks[i] = max(a.Tasks, 1)
		if s.GetTasks() == 0 && s.GetTasksPerNode() == 0 {
			tasks[i] = max(tasks[i], uint32(len(a.CpuIds))/max(s.GetCpusPerTask(), 1))
		}
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

// addMemory: in MiB, per node or per GPU if it was requested so, otherwise per CPU.
func (j *Job) addMemory(v *variables) {
	const mib = 1 << 20
	s := j.Order.Spec
	switch {
	case s.GetMemoryPerNodeBytes() > 0:
		v.setNumber("SLURM_MEM_PER_NODE", s.GetMemoryPerNodeBytes()/mib)
	case s.GetMemoryPerGpuBytes() > 0:
		v.setNumber("SLURM_MEM_PER_GPU", s.GetMemoryPerGpuBytes()/mib)
	case s.GetMemoryPerCpuBytes() > 0:
		v.setNumber("SLURM_MEM_PER_CPU", s.GetMemoryPerCpuBytes()/mib)
	case j.Own.MemoryBytes > 0 && len(j.Own.CpuIds) > 0:
		v.setNumber("SLURM_MEM_PER_CPU", j.Own.MemoryBytes/uint64(len(j.Own.CpuIds))/mib)
	}
}

func (j *Job) addArray(v *variables) {
	o := j.Order
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

func (j *Job) addRequestedGPUs(v *variables) {
	names := map[pb.GpuScope]string{
		pb.GpuScope_GPU_SCOPE_JOB: "SLURM_GPUS", pb.GpuScope_GPU_SCOPE_NODE: "SLURM_GPUS_PER_NODE", pb.GpuScope_GPU_SCOPE_TASK: "SLURM_GPUS_PER_TASK",
	}
	asked := map[pb.GpuScope]string{}
	for _, g := range j.Order.Spec.GetGpus() {
		text := strconv.FormatUint(uint64(g.Count), 10)
		if g.Model != "" {
			text = g.Model + ":" + text
		}
		if before := asked[g.Scope]; before != "" {
			text = before + "," + text
		}
		asked[g.Scope] = text
	}
	for _, scope := range slices.Sorted(maps.Keys(asked)) {
		if name := names[scope]; name != "" {
			v.set(name, asked[scope])
		}
	}
	s := j.Order.Spec
	if s.GetCpusPerGpu() > 0 {
		v.setNumber("SLURM_CPUS_PER_GPU", uint64(s.GetCpusPerGpu()))
	}
	if s.GetTasksPerGpu() > 0 {
		v.setNumber("SLURM_NTASKS_PER_GPU", uint64(s.GetTasksPerGpu()))
	}
}

// repeats writes a list as Slurm does: "2(x3),1".
func repeats(values []uint32) string {
	var texts []string
	for i := 0; i < len(values); {
		n := i
		for n < len(values) && values[n] == values[i] {
			n++
		}
		text := strconv.FormatUint(uint64(values[i]), 10)
		if n-i > 1 {
			text = fmt.Sprintf("%s(x%d)", text, n-i)
		}
		texts = append(texts, text)
		i = n
	}
	return strings.Join(texts, ",")
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

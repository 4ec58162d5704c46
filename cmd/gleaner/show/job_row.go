package show

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// JobRow is one line of gqueue: a job, an array's waiting tasks together, or,
// with --array, one of those tasks.
type JobRow struct {
	job  *pb.Job
	task *uint32 // the one waiting task that this row shows
	view *View
}

// waiting reports whether the row shows several tasks not started yet.
func (r *JobRow) waiting() bool {
	return r.task == nil && len(r.job.GetWaitingTasks().GetRanges()) > 0
}

// arrayJob is the number of the array, or of the job if it is in none.
func (r *JobRow) arrayJob() uint32 {
	if r.job.ArrayJobId != 0 {
		return r.job.ArrayJobId
	}
	return r.job.GetId().GetJob()
}

// tasks is the array index, or the waiting tasks as "0-9%2"; "" outside arrays.
func (r *JobRow) tasks() string {
	switch {
	case r.task != nil:
		return Digits(*r.task)
	case r.job.GetId() != nil && r.job.Id.ArrayTask != nil:
		return Digits(r.job.GetId().GetArrayTask())
	case r.waiting():
		waiting := r.job.GetWaitingTasks()
		text := r.view.clip(spec.FormatArray(waiting.Ranges, 0))
		if waiting.MaxRunning > 0 {
			text += "%" + Digits(waiting.MaxRunning)
		}
		return text
	}
	return ""
}

// id is the job as users name it: 12, 12_3 or 12_[0-9%2].
func (r *JobRow) id() string {
	tasks := r.tasks()
	switch {
	case tasks == "":
		return Digits(r.job.GetId().GetJob())
	case r.waiting():
		return Digits(r.arrayJob()) + "_[" + tasks + "]"
	}
	return Digits(r.arrayJob()) + "_" + tasks
}

// CompareIDs orders as squeue's "i" does: by array, then by task.
func CompareIDs(a, b *JobRow) int {
	if c := cmp.Compare(a.arrayJob(), b.arrayJob()); c != 0 {
		return c
	}
	return cmp.Compare(a.firstTask(), b.firstTask())
}

func (r *JobRow) firstTask() uint32 {
	switch {
	case r.task != nil:
		return *r.task
	case r.waiting():
		first, _ := spec.FirstTask(r.job.WaitingTasks.Ranges)
		return first
	}
	return r.job.GetId().GetArrayTask()
}

// usedSeconds is how long the present or last run took, without the time for
// which it was suspended.
func (v *View) usedSeconds(job *pb.Job) int64 {
	from := job.StartMs
	if job.SuspendMs != 0 {
		from = job.SuspendMs - job.PreSuspendMs
	}
	switch {
	case job.StartMs == 0 || Pending(job):
		return 0
	case job.State == pb.JobState_JOB_STATE_SUSPENDED || job.EndedSuspended:
		return job.PreSuspendMs / 1000
	case running(job):
		return (v.NowMS - from) / 1000
	case job.EndMs == 0:
		return 0
	}
	return (job.EndMs - from) / 1000
}

// seconds writes a duration; clocks that disagree make one INVALID (squeue(1)).
func secondsText(seconds int64) string {
	if seconds < 0 || seconds >= int64(spec.Unlimited) {
		return "INVALID"
	}
	return spec.FormatTime(uint32(seconds))
}

// limitText is the time limit as squeue's %l.
func limitText(job *pb.Job) string {
	if job.TimeLimitS == 0 {
		return "NOT_SET"
	}
	return spec.FormatTime(job.TimeLimitS)
}

// leftText is what remains of the time limit, as squeue's %L.
func (r *JobRow) leftText() string {
	if r.job.TimeLimitS == 0 || r.job.TimeLimitS == spec.Unlimited {
		return limitText(r.job)
	}
	return secondsText(int64(r.job.TimeLimitS) - r.view.usedSeconds(r.job))
}

// startMS is when the job started or is expected to.
func startMS(job *pb.Job) int64 {
	if Pending(job) {
		return job.EstimatedStartMs
	}
	return job.StartMs
}

// endText is when the job ended, or will by its limit, as squeue's %e.
func (v *View) endText(job *pb.Job) string {
	switch {
	case job.EndMs != 0 && !Pending(job) && !running(job):
		return v.Stamp(job.EndMs, "N/A")
	case startMS(job) == 0:
		return "N/A"
	case job.TimeLimitS == spec.Unlimited:
		return "NONE"
	}
	return v.Stamp(v.limitMS(job), "N/A")
}

// limitMS is when the time limit of a job that waits or runs is reached; of one
// that is suspended, if it continued now.
func (v *View) limitMS(job *pb.Job) int64 {
	from := startMS(job)
	switch {
	case job.State == pb.JobState_JOB_STATE_SUSPENDED:
		from = v.NowMS - job.PreSuspendMs
	case job.SuspendMs != 0 && !Pending(job):
		from = job.SuspendMs - job.PreSuspendMs
	}
	return from + int64(job.TimeLimitS)*1000
}

// reasonText is Slurm's word for why a job is as it is. Of one that a signal ended it
// names that: the controllers keep it beside the word.
func reasonText(job *pb.Job) string {
	switch {
	case job.Reason == "":
		return "None"
	case job.Reason == "NonZeroExitCode" && job.ExitSignal != 0:
		text := syscall.Signal(job.ExitSignal).String()
		return "RaisedSignal:" + Digits(job.ExitSignal) + "(" + strings.ToUpper(text[:1]) + text[1:] + ")"
	}
	return job.Reason
}

// placeText is where a job runs, or in parentheses why it does not, as
// squeue's %R.
func placeText(job *pb.Job) string {
	switch job.State {
	case pb.JobState_JOB_STATE_PENDING, pb.JobState_JOB_STATE_TIMEOUT, pb.JobState_JOB_STATE_FAILED,
		pb.JobState_JOB_STATE_OUT_OF_MEMORY, pb.JobState_JOB_STATE_DEADLINE:
		return "(" + reasonText(job) + ")"
	}
	return job.NodeList
}

// memoryText is the memory asked for, per node or per CPU, as squeue's %m.
func (r *JobRow) memoryText() string { return r.view.memory(r.memoryAsked()) }

func (r *JobRow) memoryAsked() uint64 {
	return cmp.Or(r.job.GetSpec().GetMemoryPerCpuBytes(), r.job.GetSpec().GetMemoryPerNodeBytes())
}

// tmpText is what the job asked for of a node's disk, as squeue's %d.
func (r *JobRow) tmpText() string { return r.view.memory(r.job.GetSpec().GetTmpPerNodeBytes()) }

// memoryBytes is what the job holds, or asks for, on all its nodes together.
func memoryBytes(job *pb.Job) uint64 {
	total := uint64(0)
	for _, node := range job.Allocation {
		total += node.MemoryBytes
	}
	if total > 0 {
		return total
	}
	if perCPU := job.GetSpec().GetMemoryPerCpuBytes(); perCPU > 0 {
		return perCPU * uint64(job.Cpus)
	}
	if perGPU := job.GetSpec().GetMemoryPerGpuBytes(); perGPU > 0 {
		gpus, _ := gpuCounts(job)
		return perGPU * uint64(gpus)
	}
	return job.GetSpec().GetMemoryPerNodeBytes() * uint64(job.Nodes)
}

// gpuCounts counts the GPUs a job holds, or asks for, by model.
func gpuCounts(job *pb.Job) (total uint32, byModel map[string]uint32) {
	byModel = map[string]uint32{}
	for _, node := range job.Allocation {
		for _, device := range node.Devices {
			total++
			byModel[device.Model]++
		}
	}
	if len(job.Allocation) > 0 {
		return total, byModel
	}
	return askedGPUs(job)
}

// tresText is "cpu=2,mem=512M,node=1,billing=2,gres/gpu=1"; what there is none of
// is left out, as in Slurm.
func (v *View) tresText(job *pb.Job) string {
	parts := []string{"cpu=" + Digits(job.Cpus)}
	if bytes := memoryBytes(job); bytes > 0 {
		parts = append(parts, "mem="+v.memory(bytes))
	}
	parts = append(parts, "node="+Digits(job.Nodes))
	if job.Billing > 0 {
		parts = append(parts, "billing="+strconv.FormatInt(job.Billing, 10))
	}
	if total, byModel := gpuCounts(job); total > 0 {
		parts = append(parts, "gres/gpu="+Digits(total))
		for _, model := range slices.Sorted(maps.Keys(byModel)) {
			if model != "" {
				parts = append(parts, "gres/gpu:"+model+"="+Digits(byModel[model]))
			}
		}
	}
	return strings.Join(parts, ",")
}

// QosOf is the job's quality of service; a job that asked for none has the
// one that its own environment names (SLURM_JOB_QOS).
func QosOf(job *pb.Job) string { return cmp.Or(job.GetSpec().GetQos(), "normal") }

// exitText is "code:signal".
func exitText(job *pb.Job) string { return Digits(job.ExitCode) + ":" + Digits(job.ExitSignal) }

// taskCount is the number of tasks of a step over the whole job.
func taskCount(job *pb.Job) uint32 {
	asked := job.GetSpec()
	switch {
	case asked.GetTasks() > 0:
		return asked.Tasks
	case asked.GetTasksPerNode() > 0:
		return asked.TasksPerNode * max(job.Nodes, 1)
	}
	return max(job.Nodes, 1)
}

// priorityFraction is squeue's %p.
func priorityFraction(job *pb.Job) string {
	return strconv.FormatFloat(float64(job.Priority)/float64(spec.Unlimited), 'f', 14, 64)
}

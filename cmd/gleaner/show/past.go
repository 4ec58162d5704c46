package show

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TRES is what a job holds or held, or asks for if it never started: "cpu=2,mem=512M,node=1".
func (v *View) TRES(job *pb.Job) string { return v.tresText(job) }

// AskedTRES is what a job asked for, whatever it got.
func (v *View) AskedTRES(job *pb.Job) string {
	asked := &pb.Job{Spec: job.GetSpec(), Cpus: job.GetCpus(), Nodes: job.GetNodes(), Billing: job.GetBilling()}
	return v.tresText(asked)
}

// MemoryBytes is what a job holds or held, or asks for, on all its nodes together.
func MemoryBytes(job *pb.Job) uint64 { return memoryBytes(job) }

// GPUCounts counts the GPUs a job holds or held, or asks for, by model.
func GPUCounts(job *pb.Job) (total uint32, byModel map[string]uint32) { return gpuCounts(job) }

// TaskCount is the number of tasks of a step over the whole job.
func TaskCount(job *pb.Job) uint32 { return taskCount(job) }

// Clock is a duration as [DAYS-]HH:MM:SS.
func Clock(seconds uint32) string {
	if seconds == spec.Unlimited {
		return spec.FormatTime(seconds)
	}
	return clockText(seconds)
}

// ArrayTasks is the index of a job in its array, or those that wait, as "0-9%2"; ""
// outside arrays.
func (v *View) ArrayTasks(job *pb.Job) string { return (&JobRow{job: job, view: v}).tasks() }

// JobName is the job as users name it: 12, 12_3 or 12_[0-9%2].
func (v *View) JobName(job *pb.Job) string { return (&JobRow{job: job, view: v}).id() }

// Moment is a time in Unix seconds; 0 where there is none, or null in the old shape.
func (s JSONShape) Moment(ms int64) Optional {
	if s == JSONOld {
		return Optional{Shape: s, set: ms != 0, number: uint64(max(ms, 0)) / 1000}
	}
	return s.moment(ms)
}

// Minutes is a time limit in Slurm's unit.
func (s JSONShape) Minutes(seconds uint32) Optional { return s.minutes(seconds) }

// Words is a state: a list of its base and flags, or in the old shape the base alone.
func (s JSONShape) Words(base string, flags ...string) any { return s.words(base, flags...) }

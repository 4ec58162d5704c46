package show

import (
	"cmp"
	"strings"
	"sync"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jobCurrent is what only the current shape has of a job.
type jobCurrent struct {
	*jobUnused
	jobMail
	AllocatingNode    string   `json:"allocating_node"`
	BillableTres      Real     `json:"billable_tres"`
	Cluster           string   `json:"cluster"`
	Flags             []string `json:"flags"`
	LicensesAllocated string   `json:"licenses_allocated"`
	MinimumCPUs       Optional `json:"minimum_cpus_per_node"`
	MinimumTmp        Optional `json:"minimum_tmp_disk_per_node"`
	PreemptableTime   Optional `json:"preemptable_time"`
	Resources         any      `json:"job_resources"` // null while nothing is allocated
	ScheduledNodes    string   `json:"scheduled_nodes"`
	Shared            []string `json:"shared"`
	StandardErrorIn   string   `json:"stderr_expanded"`
	StandardInputIn   string   `json:"stdin_expanded"`
	StandardOutputIn  string   `json:"stdout_expanded"`
	TasksPerTres      Optional `json:"tasks_per_tres"`
}

type jobMail struct {
	MailType []string `json:"mail_type"`
	MailUser string   `json:"mail_user"`
}

// jobUnused is what no job has here, with what Slurm says of a job that has it not.
type jobUnused struct {
	AdminComment      string     `json:"admin_comment"`
	AssociationID     uint32     `json:"association_id"`
	BatchFeatures     string     `json:"batch_features"`
	BurstBuffer       string     `json:"burst_buffer"`
	BurstBufferState  string     `json:"burst_buffer_state"`
	ClusterFeatures   string     `json:"cluster_features"`
	ContainerID       string     `json:"container_id"`
	CoreSpec          uint32     `json:"core_spec"`
	CoresPerSocket    Optional   `json:"cores_per_socket"`
	FrequencyGovernor Optional   `json:"cpu_frequency_governor"`
	FrequencyMaximum  Optional   `json:"cpu_frequency_maximum"`
	FrequencyMinimum  Optional   `json:"cpu_frequency_minimum"`
	Cron              string     `json:"cron"`
	DelayBoot         Optional   `json:"delay_boot"`
	DerivedExitCode   exitRecord `json:"derived_exit_code"`
	Extra             string     `json:"extra"`
	FailedNode        string     `json:"failed_node"`
	FederationOrigin  string     `json:"federation_origin"`
	FederationActive  string     `json:"federation_siblings_active"`
	FederationViable  string     `json:"federation_siblings_viable"`
	HetJobID          Optional   `json:"het_job_id"`
	HetJobIDSet       string     `json:"het_job_id_set"`
	HetJobOffset      Optional   `json:"het_job_offset"`
	JobSize           []string   `json:"job_size_str"`
	LastEvaluation    Optional   `json:"last_sched_evaluation"`
	MaxCpus           Optional   `json:"max_cpus"`
	McsLabel          string     `json:"mcs_label"`
	Power             flagsOnly  `json:"power"`
	Prefer            string     `json:"prefer"`
	ByPartition       []string   `json:"priority_by_partition"`
	Profile           []string   `json:"profile"`
	Reboot            bool       `json:"reboot"`
	ResizeTime        Optional   `json:"resize_time"`
	SegmentSize       uint32     `json:"segment_size"`
	SelinuxContext    string     `json:"selinux_context"`
	SocketsPerBoard   uint32     `json:"sockets_per_board"`
	SocketsPerNode    Optional   `json:"sockets_per_node"`
	SystemComment     string     `json:"system_comment"`
	TasksPerBoard     Optional   `json:"tasks_per_board"`
	TasksPerCore      Optional   `json:"tasks_per_core"`
	TasksPerSocket    Optional   `json:"tasks_per_socket"`
	ThreadSpec        uint32     `json:"thread_spec"`
	ThreadsPerCore    Optional   `json:"threads_per_core"`
	TresBind          string     `json:"tres_bind"`
	TresFreq          string     `json:"tres_freq"`
	TresPerSocket     string     `json:"tres_per_socket"`
}

type flagsOnly struct {
	Flags []string `json:"flags"`
}

// noThreadSpec is the thread_spec of a job that keeps no threads free for the system.
const noThreadSpec = 0x7ffe

var unusedOfJob = sync.OnceValue(func() *jobUnused {
	s := JSONCurrent
	unset, zero, infinite := Optional{Shape: s}, s.Count(0), Optional{Shape: s, infinite: true}
	return &jobUnused{
		CoresPerSocket: unset, FrequencyGovernor: unset, FrequencyMaximum: unset, FrequencyMinimum: unset, SocketsPerNode: unset, ThreadsPerCore: unset,
		DelayBoot: zero, HetJobID: zero, HetJobOffset: zero, LastEvaluation: zero, MaxCpus: zero, ResizeTime: zero, TasksPerBoard: zero,
		TasksPerCore: infinite, TasksPerSocket: infinite, ThreadSpec: noThreadSpec, DerivedExitCode: s.ExitCode(0, 0),
		JobSize: []string{}, Power: flagsOnly{[]string{}}, ByPartition: []string{}, Profile: []string{"NOT_SET"},
	}
})

// currentPart fills in what only the current shape has, and what it has in other words.
func (s JSONShape) currentPart(r *JobRow, record *jobRecord) {
	job, asked := r.job, r.job.GetSpec()
	current := &jobCurrent{
		jobUnused: unusedOfJob(), AllocatingNode: asked.GetSubmitHost(), BillableTres: Real{Shape: s}, Cluster: r.view.Cluster, Flags: jobFlags(job), LicensesAllocated: allocatedLicenses(job),
		MinimumCPUs: s.Count(uint64(max(asked.GetCpusPerTask(), 1) * max(asked.GetTasksPerNode(), 1))), MinimumTmp: s.Count(asked.GetTmpPerNodeBytes() >> 20),
		PreemptableTime: s.moment(job.PreemptEligibleMs), ScheduledNodes: job.ScheduledNodes, Shared: sharedWords(asked),
		StandardErrorIn: record.StandardError, StandardInputIn: record.StandardInput, StandardOutputIn: record.StandardOutput,
		TasksPerTres: s.Count(uint64(asked.GetTasksPerGpu())), jobMail: mailOf(job),
	}
	if len(job.Allocation) > 0 {
		billing := float64(job.Billing)
		current.BillableTres.Number = &billing
		current.Resources = s.jobResources(job)
	}
	record.jobCurrent = current
	record.CpusPerTask = s.Count(uint64(max(asked.GetCpusPerTask(), 1)))
	record.TasksPerNode = s.Count(uint64(asked.GetTasksPerNode()))
	record.MemoryPerNode.set = !record.MemoryPerCPU.set
	if word, _, detailed := strings.Cut(record.StateReason, ":"); detailed { // RaisedSignal:9(Killed)
		record.StateDescription, record.StateReason = cmp.Or(record.StateDescription, record.StateReason), word
	}
}

// allocatedLicenses are the licenses of a job that has what it asked for.
func allocatedLicenses(job *pb.Job) string {
	if len(job.Allocation) > 0 {
		return job.GetSpec().GetLicenses()
	}
	return ""
}

// mailOf is of what mail is sent about a job, and to whom.
func mailOf(job *pb.Job) jobMail {
	return jobMail{
		MailType: spec.MailTypes(job.GetSpec().GetMailTypes()).JSONWords(), MailUser: cmp.Or(job.GetSpec().GetMailUser(), job.GetOwner().GetUser()),
	}
}

// sharedWords is how nodes are shared with other jobs, where the job says so.
func sharedWords(asked *pb.JobSpec) []string {
	switch {
	case asked.GetExclusive():
		return []string{"none"}
	case asked.GetExclusiveUser():
		return []string{"user"}
	}
	return []string{}
}

// jobFlags are those of Slurm's flags that can be told from a job.
func jobFlags(job *pb.Job) []string {
	asked, flags := job.GetSpec(), []string{}
	for _, one := range []struct {
		name string
		set  bool
	}{
		{"KILL_INVALID_DEPENDENCY", asked.GetKillOnInvalidDependency()},
		{"NO_KILL_INVALID_DEPENDENCY", asked != nil && asked.KillOnInvalidDependency != nil && !asked.GetKillOnInvalidDependency()},
		{"SPREAD_JOB", asked.GetSpreadJob()},
		{"PREFER_MINIMUM_NODE_COUNT", asked.GetUseMinNodes()},
		{"EXACT_TASK_COUNT_REQUESTED", asked.GetTasks() > 0},
		{"JOB_WAS_RUNNING", job.Epoch > 0},
		{"EXACT_MEMORY_REQUESTED", asked.GetMemoryPerCpuBytes() > 0 || asked.GetMemoryPerNodeBytes() > 0},
		{"USING_DEFAULT_ACCOUNT", asked.GetAccount() == ""},
		{"USING_DEFAULT_PARTITION", len(asked.GetPartitions()) == 0},
		{"USING_DEFAULT_QOS", asked.GetQos() == ""},
		{"USING_DEFAULT_WCKEY", asked.GetWckey() == ""},
		{"DEPENDENT", asked.GetDependency() != "" && job.EligibleMs == 0},
		{"PARTITION_ASSIGNED", job.Partition != ""},
	} {
		if one.set {
			flags = append(flags, one.name)
		}
	}
	return flags
}

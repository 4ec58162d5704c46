package show

import (
	"cmp"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jobRecord is a job as Slurm's JSON has it (slurmrestd, "job_info").
type jobRecord struct {
	*jobCurrent

	Account          string       `json:"account"`
	AccrueTime       Optional     `json:"accrue_time"`
	ArrayJobID       Optional     `json:"array_job_id"`
	ArrayTaskID      Optional     `json:"array_task_id"`
	ArrayTaskString  string       `json:"array_task_string"`
	ArrayMaxTasks    Optional     `json:"array_max_tasks"`
	BatchFlag        bool         `json:"batch_flag"`
	BatchHost        string       `json:"batch_host"`
	BeginTime        Optional     `json:"begin_time"`
	Comment          string       `json:"comment"`
	Command          string       `json:"command"`
	Container        string       `json:"container"`
	Cpus             Optional     `json:"cpus"`
	CpusPerTask      Optional     `json:"cpus_per_task"`
	WorkDirectory    string       `json:"current_working_directory"`
	Deadline         Optional     `json:"deadline"`
	Dependency       string       `json:"dependency"`
	EligibleTime     Optional     `json:"eligible_time"`
	EndTime          Optional     `json:"end_time"`
	ExcludedNodes    string       `json:"excluded_nodes"`
	ExitCode         any          `json:"exit_code"`
	Features         string       `json:"features"`
	GresDetail       []string     `json:"gres_detail"`
	GroupID          uint32       `json:"group_id"`
	GroupName        string       `json:"group_name"`
	Hold             bool         `json:"hold"`
	JobID            uint32       `json:"job_id"`
	JobState         any          `json:"job_state"`
	KillOnInvalid    bool         `json:"kill_on_invalid_dependent"`
	Licenses         string       `json:"licenses"`
	MaxNodes         Optional     `json:"max_nodes"`
	MemoryPerCPU     Optional     `json:"memory_per_cpu"`
	MemoryPerNode    Optional     `json:"memory_per_node"`
	Name             string       `json:"name"`
	Network          string       `json:"network"`
	Nice             int32        `json:"nice"`
	NodeCount        Optional     `json:"node_count"`
	Nodes            string       `json:"nodes"`
	Partition        string       `json:"partition"`
	PreemptTime      Optional     `json:"preempt_time"`
	SuspendTime      Optional     `json:"suspend_time"`
	PreSusTime       Optional     `json:"pre_sus_time"` // seconds
	Priority         Optional     `json:"priority"`
	QOS              string       `json:"qos"`
	Requeue          bool         `json:"requeue"`
	RequiredNodes    string       `json:"required_nodes"`
	RestartCount     uint32       `json:"restart_cnt"`
	Reservation      string       `json:"resv_name"`
	StandardError    string       `json:"standard_error"`
	StandardInput    string       `json:"standard_input"`
	StandardOutput   string       `json:"standard_output"`
	StartTime        Optional     `json:"start_time"`
	StateDescription string       `json:"state_description"`
	StateReason      string       `json:"state_reason"`
	SubmitTime       Optional     `json:"submit_time"`
	Tasks            Optional     `json:"tasks"`
	TasksPerNode     Optional     `json:"tasks_per_node"`
	TimeLimit        Optional     `json:"time_limit"`
	TimeMinimum      Optional     `json:"time_minimum"`
	TresAlloc        string       `json:"tres_alloc_str"`
	TresPerJob       string       `json:"tres_per_job"`
	TresPerTask      string       `json:"tres_per_task"`
	CpusPerTres      string       `json:"cpus_per_tres"`
	MemoryPerTres    string       `json:"memory_per_tres"`
	RequiredSwitches uint32       `json:"required_switches"`
	MaxSwitchWait    uint32       `json:"maximum_switch_wait_time"`
	Contiguous       bool         `json:"contiguous"`
	TresPerNode      string       `json:"tres_per_node"`
	TresRequested    string       `json:"tres_req_str"`
	UserID           uint32       `json:"user_id"`
	UserName         string       `json:"user_name"`
	Wckey            string       `json:"wckey"`
	Gleaner          gleanerExtra `json:"gleaner"`
}

// gleanerExtra is what Slurm's JSON has no place for.
type gleanerExtra struct {
	Epoch           uint32           `json:"epoch"`
	WaitingTasks    string           `json:"waiting_tasks,omitempty"`
	PeakMemoryBytes uint64           `json:"peak_memory_bytes,omitempty"`
	CPUNs           uint64           `json:"cpu_ns,omitempty"`
	Signal          string           `json:"signal,omitempty"` // of --signal
	Checkpoint      *checkpointJSON  `json:"checkpoint,omitempty"`
	Saved           *jobSavedJSON    `json:"saved,omitempty"`
	Allocation      []allocationJSON `json:"allocation"`
	// Of a guest: how long parking it takes at most, or why nobody can say.
	ParkBoundMs   uint32 `json:"park_bound_ms,omitempty"`
	ParkUnbounded string `json:"park_unbounded,omitempty"`
}

type allocationJSON struct {
	Node        string       `json:"node"`
	CPUs        []uint32     `json:"cpus"`
	MemoryBytes uint64       `json:"memory_bytes"`
	Devices     []deviceJSON `json:"devices"`
}

// deviceJSON is a device of a node, or of a job's part on it.
type deviceJSON struct {
	ID          string `json:"id"`
	Index       uint32 `json:"index"`
	Model       string `json:"model"`
	Product     string `json:"product,omitempty"`
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	Health      string `json:"health,omitempty"`
	Allocated   bool   `json:"allocated"`
}

// Job is the row as a record of this shape.
func (s JSONShape) Job(r *JobRow) *jobRecord {
	job, asked := r.job, r.job.GetSpec()
	record := &jobRecord{
		JobID: job.GetId().GetJob(), Name: asked.GetName(), Account: asked.GetAccount(), QOS: QosOf(job),
		Comment: asked.GetComment(), Container: asked.GetImage(), Wckey: asked.GetWckey(), BatchFlag: true, BatchHost: job.BatchHost,
		UserID: job.GetOwner().GetUid(), UserName: job.GetOwner().GetUser(),
		GroupID: job.GetOwner().GetGid(), GroupName: job.GetOwner().GetGroup(),
		Partition: job.Partition, Nodes: job.NodeList, Nice: asked.GetNice(), Hold: asked.GetHold(),
		Requeue: asked.GetRequeue(), RestartCount: job.RestartCount, Dependency: asked.GetDependency(),
		Command: asked.GetCommand(), WorkDirectory: asked.GetWorkDirectory(), RequiredNodes: asked.GetNodeList(), ExcludedNodes: asked.GetExcludeNodes(),
		Features: asked.GetConstraint(), StateReason: reasonText(job), StateDescription: job.ReasonDetail,
		StandardOutput: standardFile(r, standardOutput), StandardError: standardFile(r, standardError), StandardInput: standardFile(r, standardInput),
		TresPerNode: gresText(asked, pb.GpuScope_GPU_SCOPE_NODE), TresPerJob: gresText(asked, pb.GpuScope_GPU_SCOPE_JOB),
		TresPerTask: gresText(asked, pb.GpuScope_GPU_SCOPE_TASK), CpusPerTres: cpusPerTRES(asked), MemoryPerTres: memoryPerTRES(asked),
		RequiredSwitches: asked.GetSwitches(), MaxSwitchWait: asked.GetSwitchesWaitS(), Contiguous: asked.GetContiguous(),
		TresRequested: r.view.tresText(job),
		Cpus:          s.Count(uint64(job.Cpus)), NodeCount: s.Count(uint64(job.Nodes)), MaxNodes: s.Count(uint64(asked.GetMaxNodes())),
		Tasks: s.Count(uint64(taskCount(job))), CpusPerTask: s.some(uint64(asked.GetCpusPerTask())), TasksPerNode: s.some(uint64(asked.GetTasksPerNode())),
		MemoryPerCPU: s.some(asked.GetMemoryPerCpuBytes() >> 20), MemoryPerNode: s.some(asked.GetMemoryPerNodeBytes() >> 20),
		Priority: s.Count(job.Priority), TimeLimit: s.minutes(job.TimeLimitS), TimeMinimum: s.minutes(asked.GetTimeMinS()),
		SubmitTime: s.moment(job.SubmitMs), EligibleTime: s.moment(job.EligibleMs), StartTime: s.moment(startMS(job)),
		AccrueTime: s.moment(job.AccrueMs), BeginTime: s.moment(asked.GetBeginMs()), Deadline: s.moment(asked.GetDeadlineMs()),
		PreemptTime: s.moment(job.PreemptMs), SuspendTime: s.moment(job.SuspendMs), PreSusTime: s.Count(uint64(max(job.PreSuspendMs, 0) / 1000)), KillOnInvalid: asked.GetKillOnInvalidDependency(),
		EndTime: s.moment(r.view.expectedEndMS(job)), ExitCode: s.exitCode(job),
		JobState:      s.words(spec.StateName(job.State), stateFlags(job)...),
		Licenses:      asked.GetLicenses(),
		Reservation:   reservationNames(asked),
		Network:       networkWord(asked.GetNetwork()),
		ArrayJobID:    s.Count(uint64(job.ArrayJobId)),
		ArrayMaxTasks: s.Count(uint64(job.GetWaitingTasks().GetMaxRunning())),
		GresDetail:    []string{},
	}
	s.arrayPart(r, record)
	if len(job.Allocation) > 0 {
		record.TresAlloc = r.view.tresText(job)
	}
	if s != JSONOld {
		s.currentPart(r, record)
	}
	record.Gleaner = s.extra(r, record)
	return record
}

// arrayPart tells the old shape's word for completing from the new one's, and
// a single task from many.
func (s JSONShape) arrayPart(r *JobRow, record *jobRecord) {
	if s == JSONOld {
		record.JobState = StateName(r.job)
	}
	switch {
	case r.waiting():
		record.ArrayTaskString = r.tasks()
	case r.tasks() != "":
		record.ArrayTaskID = s.Count(uint64(r.firstTask()))
		return
	}
	record.ArrayTaskID = Optional{Shape: s}
}

func (s JSONShape) extra(r *JobRow, record *jobRecord) gleanerExtra {
	extra := gleanerExtra{
		Epoch: r.job.Epoch, WaitingTasks: spec.FormatArray(r.job.GetWaitingTasks().GetRanges(), 0), Allocation: []allocationJSON{},
		PeakMemoryBytes: r.job.GetUsage().GetPeakMemoryBytes(), CPUNs: r.job.GetUsage().GetCpuNs(),
		Signal: r.job.GetSpec().GetSignal(), Checkpoint: checkpointOf(r), Saved: savedOf(r.job),
		ParkBoundMs: r.job.ParkBoundMs, ParkUnbounded: r.job.ParkUnbounded,
	}
	for _, node := range r.job.Allocation {
		part := allocationJSON{Node: node.Node, CPUs: append([]uint32{}, node.CpuIds...), MemoryBytes: node.MemoryBytes, Devices: []deviceJSON{}}
		for _, device := range node.Devices {
			part.Devices = append(part.Devices, deviceJSON{ID: device.DeviceId, Index: device.Index, Model: device.Model, Allocated: true})
		}
		extra.Allocation = append(extra.Allocation, part)
		record.GresDetail = append(record.GresDetail, cmp.Or(allocatedGres(node), "gpu:0"))
	}
	return extra
}

// exitCode is a plain wait status in the old shape, as in Slurm.
func (s JSONShape) exitCode(job *pb.Job) any {
	if s == JSONOld {
		return job.ExitCode<<8 | job.ExitSignal
	}
	return s.ExitCode(job.ExitCode, job.ExitSignal)
}

// exitRecord is how a process ended. Of one that has not, Slurm says that it succeeded.
type exitRecord struct {
	Status     []string     `json:"status"`
	ReturnCode Optional     `json:"return_code"`
	Signal     signalRecord `json:"signal"`
}

type signalRecord struct {
	ID   Optional `json:"id"`
	Name string   `json:"name"`
}

// ExitCode is an exit code, or the signal that ended a process, in the current shape.
func (s JSONShape) ExitCode(code, signal uint32) exitRecord {
	record := exitRecord{Status: []string{"SUCCESS"}, ReturnCode: s.Count(uint64(code)), Signal: signalRecord{ID: Optional{Shape: s}}}
	switch {
	case signal != 0:
		record.Status, record.ReturnCode = []string{"SIGNALED"}, Optional{Shape: s}
		record.Signal = signalRecord{s.Count(uint64(signal)), spec.SignalName(signal)}
	case code != 0:
		record.Status = []string{"ERROR"}
	}
	return record
}

func stateFlags(job *pb.Job) []string {
	var flags []string
	if job.Completing {
		flags = append(flags, spec.Completing)
	}
	if job.Configuring {
		flags = append(flags, spec.Configuring)
	}
	if job.SpecialExit {
		flags = append(flags, spec.SpecialExit)
	}
	return flags
}

// expectedEndMS is when the job ended or will at the latest; 0 = unknown.
func (v *View) expectedEndMS(job *pb.Job) int64 {
	switch {
	case job.EndMs != 0 && !Pending(job) && !running(job):
		return job.EndMs
	case startMS(job) == 0 || job.TimeLimitS == spec.Unlimited:
		return 0
	}
	return v.limitMS(job)
}

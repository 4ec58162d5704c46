package acct

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// jobRecord is a job as Slurm's JSON of accounting has it (slurmrestd, "job" of
// openapi/slurmdbd).
type jobRecord struct {
	*jobCurrent
	Account         string        `json:"account"`
	Array           arrayRecord   `json:"array"`
	Association     association   `json:"association"`
	AllocationNodes uint32        `json:"allocation_nodes"`
	Cluster         string        `json:"cluster"`
	Comment         any           `json:"comment"`
	Constraints     string        `json:"constraints"`
	ExitCode        any           `json:"exit_code"`
	Flags           []string      `json:"flags"`
	Group           string        `json:"group"`
	JobID           uint32        `json:"job_id"`
	KillRequestUser string        `json:"kill_request_user"`
	Name            string        `json:"name"`
	Nodes           string        `json:"nodes"`
	Partition       string        `json:"partition"`
	Priority        show.Optional `json:"priority"`
	QOS             string        `json:"qos"`
	Required        any           `json:"required"`
	RestartCount    uint32        `json:"restart_cnt"`
	State           any           `json:"state"`
	Steps           []stepRecord  `json:"steps"`
	Time            any           `json:"time"`
	TRES            tresRecord    `json:"tres"`
	User            string        `json:"user"`
	WCKey           any           `json:"wckey"`
	WorkDirectory   string        `json:"working_directory"`
	Gleaner         extra         `json:"gleaner"`
}

type association struct {
	Account   string `json:"account"`
	Cluster   string `json:"cluster"`
	Partition string `json:"partition"`
	User      string `json:"user"`
	ID        uint32 `json:"id"` // associations have no numbers here
}

type arrayRecord struct {
	JobID  uint32        `json:"job_id"`
	TaskID show.Optional `json:"task_id"`
	Task   string        `json:"task"`
	Limits any           `json:"limits"`
}

type tresRecord struct {
	Allocated []resource `json:"allocated"`
	Requested []resource `json:"requested"`
}

type resource struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	ID    int    `json:"id"`
	Count uint64 `json:"count"`
}

// extra is what Slurm's JSON has no place for.
type extra struct {
	Live           bool         `json:"live"`
	Requeued       bool         `json:"requeued"`
	Epoch          uint32       `json:"epoch"`
	PeakMemory     uint64       `json:"peak_memory_bytes"`
	Preemptions    uint32       `json:"preemptions"`
	LostGPUSeconds int64        `json:"lost_gpu_seconds"`
	KeptGPUSeconds int64        `json:"kept_gpu_seconds"`
	Undone         int64        `json:"undone_seconds"`
	Borrowed       []borrowedIn `json:"borrowed"`
	StepsOmitted   uint32       `json:"steps_omitted"`
}

type borrowedIn struct {
	Owner string `json:"owner"`
	Nodes uint32 `json:"nodes"`
	CPUs  uint32 `json:"cpus"`
	GPUs  uint32 `json:"gpus"`
	Model string `json:"model"`
}

func writeJSON(inv *option.Invocation, shape show.JSONShape, view *show.View, ask func(func(*pb.PastRun) error) error) error {
	var records []*jobRecord
	err := ask(func(run *pb.PastRun) error {
		records = append(records, recordOf(shape, view, run))
		return nil
	})
	if err != nil {
		return past.Failed(inv, err)
	}
	return show.WriteJSON(inv, shape, "jobs", records)
}

func recordOf(s show.JSONShape, view *show.View, run *pb.PastRun) *jobRecord {
	job, asked := run.GetJob(), run.GetJob().GetSpec()
	whole := past.Row{Run: run}
	record := &jobRecord{
		Account: asked.GetAccount(), Cluster: view.Cluster, Constraints: asked.GetConstraint(), Flags: []string{},
		Association: association{Account: asked.GetAccount(), Cluster: view.Cluster, User: job.GetOwner().GetUser()},
		Comment:     map[string]string{"administrator": "", "job": asked.GetComment(), "system": ""},
		ExitCode:    exitOf(s, whole), Group: job.GetOwner().GetGroup(), JobID: job.GetId().GetJob(), Name: asked.GetName(),
		Nodes: cmp.Or(job.GetNodeList(), "None assigned"), Partition: job.GetPartition(), Priority: s.Count(job.GetPriority()), QOS: show.QosOf(job),
		Required:     map[string]any{"CPUs": job.GetCpus(), "memory_per_node": s.Count(asked.GetMemoryPerNodeBytes() >> 20), "memory_per_cpu": s.Count(asked.GetMemoryPerCpuBytes() >> 20)},
		RestartCount: job.GetRestartCount(), State: stateOf(s, whole, job.GetReason()), Steps: []stepRecord{}, Time: jobTimeOf(s, whole),
		User: job.GetOwner().GetUser(), WCKey: map[string]any{"wckey": asked.GetWckey(), "flags": []string{}}, WorkDirectory: asked.GetWorkDirectory(),
		Array: arrayOf(s, view, job), Gleaner: extraOf(run),
	}
	if _, by := whole.State(); by != "" {
		record.KillRequestUser = by
	}
	record.TRES.Requested = resourcesOf(&pb.Job{Spec: asked, Cpus: job.GetCpus(), Nodes: job.GetNodes(), Billing: job.GetBilling()})
	record.TRES.Allocated = []resource{}
	if job.GetStartMs() != 0 {
		record.TRES.Allocated, record.AllocationNodes = resourcesOf(job), job.GetNodes()
	}
	for _, one := range past.Rows(run)[1:] {
		record.Steps = append(record.Steps, stepOf(s, view, one))
	}
	if s != show.JSONOld {
		record.jobCurrent = currentOf(s, whole)
		record.Flags = append(record.Flags, startFlag(job))
	}
	return record
}

// startFlag is in which kind of pass of the scheduler a job was started. There is only one,
// which looks at the main order first and backfills in it.
func startFlag(job *pb.Job) string {
	switch {
	case job.GetStartMs() == 0:
		return "NOT_SET"
	case job.GetFillsHole():
		return "STARTED_ON_BACKFILL"
	}
	return "STARTED_ON_SCHEDULE"
}

func arrayOf(s show.JSONShape, view *show.View, job *pb.Job) arrayRecord {
	record := arrayRecord{JobID: job.GetArrayJobId(), TaskID: show.Optional{Shape: s}, Limits: map[string]any{"max": map[string]any{"running": map[string]uint32{"tasks": job.GetWaitingTasks().GetMaxRunning()}}}}
	if job.GetId() != nil && job.Id.ArrayTask != nil {
		record.TaskID = s.Count(uint64(job.GetId().GetArrayTask()))
	} else {
		record.Task = view.ArrayTasks(job)
	}
	return record
}

func stateWord(s show.JSONShape, r past.Row) any {
	word, _ := r.State()
	return s.Words(word)
}

func stateOf(s show.JSONShape, r past.Row, reason string) any {
	return map[string]any{"current": stateWord(s, r), "reason": reason}
}

// Numbers that no model of GPUs reaches.
const (
	gpuMemoryID  = 2001
	gpuPercentID = 2002
)

// resourcesOf are a job's resources with the numbers that Slurm gives to the kinds.
func resourcesOf(job *pb.Job) []resource {
	list := []resource{{Type: "cpu", ID: 1, Count: uint64(job.GetCpus())}}
	if bytes := show.MemoryBytes(job); bytes > 0 {
		list = append(list, resource{Type: "mem", ID: 2, Count: bytes >> 20})
	}
	list = append(list, resource{Type: "node", ID: 4, Count: uint64(job.GetNodes())})
	if job.GetBilling() > 0 {
		list = append(list, resource{Type: "billing", ID: 5, Count: uint64(job.GetBilling())})
	}
	total, byModel := show.GPUCounts(job)
	if total > 0 {
		list = append(list, resource{Type: "gres", Name: "gpu", ID: 1001, Count: uint64(total)})
	}
	for i, model := range slices.Sorted(maps.Keys(byModel)) {
		if model != "" {
			list = append(list, resource{Type: "gres", Name: "gpu:" + model, ID: 1002 + i, Count: uint64(byModel[model])})
		}
	}
	return list
}

func extraOf(run *pb.PastRun) extra {
	job := run.GetJob()
	e := extra{
		Live: run.GetLive(), Requeued: run.GetRequeued(), Epoch: job.GetEpoch(), PeakMemory: job.GetUsage().GetPeakMemoryBytes(), Preemptions: run.GetPreemptions(),
		LostGPUSeconds: run.GetLostGpuMs() / 1000, KeptGPUSeconds: job.GetSaved().GetKeptGpuMs() / 1000, Undone: job.GetSaved().GetUndoneMs() / 1000, Borrowed: []borrowedIn{},
	}
	_, e.StepsOmitted = past.Steps(run)
	for _, b := range run.GetBorrowed() {
		e.Borrowed = append(e.Borrowed, borrowedIn{Owner: b.GetOwner(), Nodes: b.GetNodes(), CPUs: b.GetCpus(), GPUs: b.GetGpus(), Model: b.GetModel()})
	}
	return e
}

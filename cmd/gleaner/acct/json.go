package acct

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jobRecord is a job as Slurm's JSON of accounting has it (slurmrestd, "job" of
// openapi/slurmdbd).
type jobRecord struct {
	Account         string        `json:"account"`
	Array           arrayRecord   `json:"array"`
	Association     any           `json:"association"`
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
	Time            timeRecord    `json:"time"`
	TRES            tresRecord    `json:"tres"`
	User            string        `json:"user"`
	WCKey           any           `json:"wckey"`
	WorkDirectory   string        `json:"working_directory"`
	Gleaner         extra         `json:"gleaner"`
}

type arrayRecord struct {
	JobID  uint32        `json:"job_id"`
	TaskID show.Optional `json:"task_id"`
	Task   string        `json:"task"`
	Limits any           `json:"limits"`
}

type timeRecord struct {
	Elapsed    uint32        `json:"elapsed"`
	Eligible   show.Optional `json:"eligible"`
	End        show.Optional `json:"end"`
	Start      show.Optional `json:"start"`
	Submission show.Optional `json:"submission"`
	Suspended  uint32        `json:"suspended"`
	Limit      show.Optional `json:"limit"`
	Total      spanRecord    `json:"total"`
}

type spanRecord struct {
	Seconds      uint64 `json:"seconds"`
	Microseconds uint64 `json:"microseconds"`
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

type stepRecord struct {
	Step     stepName   `json:"step"`
	State    any        `json:"state"`
	ExitCode any        `json:"exit_code"`
	Nodes    any        `json:"nodes"`
	Tasks    any        `json:"tasks"`
	Time     timeRecord `json:"time"`
	TRES     any        `json:"tres"`
}

type stepName struct {
	ID   any    `json:"id"`
	Name string `json:"name"`
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
		Association: map[string]string{"account": asked.GetAccount(), "cluster": view.Cluster, "partition": "", "user": job.GetOwner().GetUser()},
		Comment:     map[string]string{"administrator": "", "job": asked.GetComment(), "system": ""},
		ExitCode:    exitOf(s, whole), Group: job.GetOwner().GetGroup(), JobID: job.GetId().GetJob(), Name: asked.GetName(),
		Nodes: cmp.Or(job.GetNodeList(), "None assigned"), Partition: job.GetPartition(), Priority: s.Count(job.GetPriority()), QOS: show.QosOf(job),
		Required:     map[string]any{"CPUs": job.GetCpus(), "memory_per_node": s.Count(asked.GetMemoryPerNodeBytes() >> 20), "memory_per_cpu": s.Count(asked.GetMemoryPerCpuBytes() >> 20)},
		RestartCount: job.GetRestartCount(), State: stateOf(s, whole, job.GetReason()), Steps: []stepRecord{}, Time: timeOf(s, whole),
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
	return record
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

func stepOf(s show.JSONShape, view *show.View, r past.Row) stepRecord {
	job := r.Job()
	id := any(view.JobName(job) + "." + r.Step)
	if s == show.JSONOld {
		id = map[string]any{"job_id": job.GetId().GetJob(), "step_id": r.Step}
	}
	if r.Of != nil {
		return numberedStep(s, id, r)
	}
	return stepRecord{
		Step: stepName{ID: id, Name: r.Step}, State: stateWord(s, r), ExitCode: exitOf(s, r), Time: timeOf(s, r),
		Nodes: map[string]any{"count": 1, "range": job.GetBatchHost(), "list": []string{job.GetBatchHost()}}, Tasks: map[string]int{"count": 1},
		TRES: map[string]any{"allocated": resourcesOf(job)},
	}
}

// numberedStep is a step that is not the batch script.
func numberedStep(s show.JSONShape, id any, r past.Row) stepRecord {
	of := r.Of
	allocated := []resource{{Type: "cpu", ID: 1, Count: uint64(of.CPUs)}, {Type: "node", ID: 4, Count: uint64(len(of.Nodes))}}
	if of.GPUs > 0 {
		allocated = append(allocated, resource{Type: "gres", Name: "gpu", ID: 1001, Count: uint64(of.GPUs)})
	}
	gpu := of.GPU
	used := func(cpuNS, bytes, gpuBytes uint64, gpuPercent float64) []resource {
		list := []resource{{Type: "cpu", ID: 1, Count: cpuNS / 1e6}, {Type: "mem", ID: 2, Count: bytes}}
		if gpu.Measured {
			list = append(list, resource{Type: "gres", Name: "gpumem", ID: gpuMemoryID, Count: gpuBytes}, resource{Type: "gres", Name: "gpuutil", ID: gpuPercentID, Count: uint64(math.Round(gpuPercent))})
		}
		return list
	}
	tasks := max(of.Tasks, 1)
	return stepRecord{
		Step: stepName{ID: id, Name: of.Name}, State: stateWord(s, r), ExitCode: exitOf(s, r), Time: timeOf(s, r),
		Nodes: map[string]any{"count": len(of.Nodes), "range": spec.FormatHostList(of.Nodes), "list": of.Nodes}, Tasks: map[string]int{"count": int(of.Tasks)},
		TRES: map[string]any{"allocated": allocated, "requested": map[string]any{
			"max":     used(of.CPUNS(), of.Peak.Bytes, gpu.Memory, float64(gpu.MostPercent)),
			"average": used(of.Average(of.CPUNS()), of.Average(of.SumBytes), of.Average(gpu.SumMemory), gpu.Percent/float64(tasks)),
			"total":   used(of.CPUNS(), of.SumBytes, gpu.SumMemory, gpu.Percent),
		}},
	}
}

func stateWord(s show.JSONShape, r past.Row) any {
	word, _ := r.State()
	return s.Words(word)
}

func stateOf(s show.JSONShape, r past.Row, reason string) any {
	return map[string]any{"current": stateWord(s, r), "reason": reason}
}

func exitOf(s show.JSONShape, r past.Row) any {
	code, signal := r.Exit()
	word := "SUCCESS"
	switch {
	case r.Run.GetLive() && (r.Of == nil || r.Of.EndMS == 0):
		word = "PENDING"
	case signal != 0:
		word = "SIGNALED"
	case code != 0:
		word = "ERROR"
	}
	if s == show.JSONOld {
		answer := map[string]any{"status": word, "return_code": code}
		if signal != 0 {
			answer["signal"] = map[string]any{"signal_id": signal, "name": ""}
		}
		return answer
	}
	return map[string]any{"status": []string{word}, "return_code": s.Count(uint64(code)), "signal": map[string]any{"id": s.Count(uint64(signal)), "name": ""}}
}

func timeOf(s show.JSONShape, r past.Row) timeRecord {
	job := r.Job()
	record := timeRecord{
		Elapsed: r.ElapsedS(), Eligible: s.Moment(job.GetEligibleMs()), Start: s.Moment(r.StartMS()), Submission: s.Moment(job.GetSubmitMs()),
		Suspended: r.SuspendedS(), Limit: s.Minutes(job.GetTimeLimitS()), End: s.Moment(0),
		Total: spanRecord{Seconds: job.GetUsage().GetCpuNs() / 1e9, Microseconds: job.GetUsage().GetCpuNs() / 1e3 % 1e6},
	}
	if !r.Run.GetLive() || r.Of != nil && r.Of.EndMS != 0 {
		record.End = s.Moment(r.EndMS())
	}
	if r.Of != nil {
		total := r.Of.UserUS + r.Of.SystemUS
		record.Total = spanRecord{Seconds: total / 1e6, Microseconds: total % 1e6}
	}
	return record
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

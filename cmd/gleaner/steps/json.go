package steps

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jsonRecord is a step that runs, as Slurm's JSON has it (slurmrestd, "step_info"). What no
// step has here is empty or unset.
type jsonRecord struct {
	stepFiles
	Array       arrayPart `json:"array"`
	Cluster     string    `json:"cluster"`
	Container   string    `json:"container"`
	ContainerID string    `json:"container_id"`
	CPU         cpuPart   `json:"cpu"`
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Network     string    `json:"network"`
	Nodes       string    `json:"nodes"`
	CPUs        uint32    `json:"number_cpus"`
	Tasks       uint32    `json:"number_tasks"`
	Partition   string    `json:"partition"`
	Ports       string    `json:"reserved_ports"`
	Srun        srunPart  `json:"srun"`
	State       any       `json:"state"`
	SubmitLine  string    `json:"submit_line"`
	Task        taskPart  `json:"task"`
	Time        timePart  `json:"time"`
	TRES        tresPart  `json:"tres"`
	User        string    `json:"user"`
}

// stepFiles are where a step's output goes, which its node does not say.
type stepFiles struct {
	Stderr   string `json:"stderr"`
	Stdin    string `json:"stdin"`
	Stdout   string `json:"stdout"`
	StderrIn string `json:"stderr_expanded"`
	StdinIn  string `json:"stdin_expanded"`
	StdoutIn string `json:"stdout_expanded"`
}

type arrayPart struct {
	JobID  uint32 `json:"job_id"`
	TaskID uint32 `json:"task_id"`
}

type cpuPart struct {
	Frequency frequencyPart `json:"frequency"`
}

type frequencyPart struct {
	Min      show.Optional `json:"min"`
	Max      show.Optional `json:"max"`
	Governor show.Optional `json:"governor"`
}

type srunPart struct {
	Host string `json:"host"`
	PID  uint32 `json:"pid"`
}

type taskPart struct {
	Distribution string `json:"distribution"`
}

type timePart struct {
	Limit   show.Optional `json:"limit"` // minutes
	Running show.Optional `json:"running"`
	Start   show.Optional `json:"start"`
}

type tresPart struct {
	Allocation string  `json:"allocation"`
	Binding    string  `json:"binding"`
	Frequency  string  `json:"frequency"`
	Per        perPart `json:"per"`
}

type perPart struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
	Step   string `json:"step"`
	Node   string `json:"node"`
	Socket string `json:"socket"`
	Task   string `json:"task"`
}

// notInArray is the task of a job that is in no array, as Slurm has it (NO_VAL).
const notInArray = 0xfffffffe

// JSON is the step in one of Slurm's shapes.
func (r *Row) JSON(s show.JSONShape) any {
	unset := show.Optional{Shape: s}
	record := jsonRecord{
		Array: arrayPart{JobID: r.Job.GetArrayJobId(), TaskID: notInArray}, Cluster: r.view.Cluster,
		CPU: cpuPart{frequencyPart{Min: unset, Max: unset, Governor: unset}},
		ID:  r.ID(), Name: r.name(), Nodes: r.nodes(), CPUs: r.Step.CPUs, Tasks: r.Step.Tasks, Partition: r.Job.GetPartition(),
		State: s.Words(running), Task: taskPart{"UNKNOWN"}, TRES: tresPart{Allocation: r.tres()}, User: r.Job.GetOwner().GetUser(),
		Time: timePart{Limit: s.Minutes(spec.Unlimited), Running: s.Count(uint64(r.elapsed())), Start: s.Moment(r.Step.StartMS)},
	}
	if id := r.Job.GetId(); id != nil && id.ArrayTask != nil {
		record.Array.TaskID = id.GetArrayTask()
	}
	return record
}

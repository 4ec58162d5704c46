package acct

import (
	"math"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

type stepRecord struct {
	*stepCurrent
	Step     stepName  `json:"step"`
	State    any       `json:"state"`
	ExitCode any       `json:"exit_code"`
	Nodes    stepNodes `json:"nodes"`
	Tasks    stepTasks `json:"tasks"`
	Time     any       `json:"time"`
	TRES     stepTRES  `json:"tres"`
}

type stepName struct {
	ID   any    `json:"id"`
	Name string `json:"name"`
	*stepFiles
}

// stepFiles are where a step's output goes, which is not kept.
type stepFiles struct {
	Stderr   string `json:"stderr"`
	Stdin    string `json:"stdin"`
	Stdout   string `json:"stdout"`
	StderrIn string `json:"stderr_expanded"`
	StdinIn  string `json:"stdin_expanded"`
	StdoutIn string `json:"stdout_expanded"`
}

type stepNodes struct {
	Count int      `json:"count"`
	Range string   `json:"range"`
	List  []string `json:"list"`
}

type stepTasks struct {
	Count int `json:"count"`
}

// stepTRES is what a step had. What it used is in requested, as Slurm's name for it is, and in
// the current shape in consumed.
type stepTRES struct {
	Allocated []resource `json:"allocated"`
	Requested *stepUse   `json:"requested,omitempty"`
	Consumed  *stepUse   `json:"consumed,omitempty"`
}

type stepUse struct {
	Max     []resource `json:"max"`
	Min     []resource `json:"min"`
	Average []resource `json:"average"`
	Total   []resource `json:"total"`
}

// stepCurrent is what only the current shape has of a step, and no step has here.
type stepCurrent struct {
	CPU             stepCPU        `json:"CPU"`
	KillRequestUser string         `json:"kill_request_user"`
	PID             string         `json:"pid"`
	Statistics      stepStatistics `json:"statistics"`
	Task            stepTask       `json:"task"`
}

type stepCPU struct {
	Requested stepFrequency `json:"requested_frequency"`
	Governor  string        `json:"governor"`
}

type stepFrequency struct {
	Min show.Optional `json:"min"`
	Max show.Optional `json:"max"`
}

type stepStatistics struct {
	CPU    stepActual `json:"CPU"`
	Energy stepEnergy `json:"energy"`
}

type stepActual struct {
	Frequency uint64 `json:"actual_frequency"`
}

type stepEnergy struct {
	Consumed show.Optional `json:"consumed"`
}

type stepTask struct {
	Distribution string `json:"distribution"`
}

func stepOf(s show.JSONShape, view *show.View, r past.Row) stepRecord {
	job := r.Job()
	record := stepRecord{Step: stepName{ID: view.JobName(job) + "." + r.Step, Name: r.Step}, State: stateWord(s, r), ExitCode: exitOf(s, r), Time: stepTimeOf(s, r)}
	if s == show.JSONOld {
		record.Step.ID = map[string]any{"job_id": job.GetId().GetJob(), "step_id": r.Step}
	} else {
		record.Step.stepFiles = &stepFiles{}
		zero := s.Count(0)
		record.stepCurrent = &stepCurrent{CPU: stepCPU{stepFrequency{zero, zero}, "0"}, Statistics: stepStatistics{Energy: stepEnergy{zero}}, Task: stepTask{"Unknown"}}
	}
	if r.Of == nil {
		record.Nodes, record.Tasks = stepNodes{1, job.GetBatchHost(), []string{job.GetBatchHost()}}, stepTasks{1}
		record.TRES.Allocated = resourcesOf(job)
		if s != show.JSONOld {
			record.TRES.Requested, record.TRES.Consumed = noUse(), noUse()
		}
		return record
	}
	of := r.Of
	record.Step.Name = of.Name
	record.Nodes = stepNodes{len(of.Nodes), spec.FormatHostList(of.Nodes), append([]string{}, of.Nodes...)}
	record.Tasks = stepTasks{int(of.Tasks)}
	record.TRES.Allocated = []resource{{Type: "cpu", ID: 1, Count: uint64(of.CPUs)}, {Type: "node", ID: 4, Count: uint64(len(of.Nodes))}}
	if of.GPUs > 0 {
		record.TRES.Allocated = append(record.TRES.Allocated, resource{Type: "gres", Name: "gpu", ID: 1001, Count: uint64(of.GPUs)})
	}
	record.TRES.Requested = useOf(of)
	if s != show.JSONOld {
		record.TRES.Consumed = record.TRES.Requested
	}
	return record
}

func noUse() *stepUse { return &stepUse{[]resource{}, []resource{}, []resource{}, []resource{}} }

// useOf is what a numbered step used; the least of its tasks is not known.
func useOf(of *past.Step) *stepUse {
	gpu := of.GPU
	used := func(cpuNS, bytes, gpuBytes uint64, gpuPercent float64) []resource {
		list := []resource{{Type: "cpu", ID: 1, Count: cpuNS / 1e6}, {Type: "mem", ID: 2, Count: bytes}}
		if gpu.Measured {
			list = append(list, resource{Type: "gres", Name: "gpumem", ID: gpuMemoryID, Count: gpuBytes}, resource{Type: "gres", Name: "gpuutil", ID: gpuPercentID, Count: uint64(math.Round(gpuPercent))})
		}
		return list
	}
	return &stepUse{
		Max:     used(of.CPUNS(), of.Peak.Bytes, gpu.Memory, float64(gpu.MostPercent)),
		Min:     []resource{},
		Average: used(of.Average(of.CPUNS()), of.Average(of.SumBytes), of.Average(gpu.SumMemory), gpu.Percent/float64(max(of.Tasks, 1))),
		Total:   used(of.CPUNS(), of.SumBytes, gpu.SumMemory, gpu.Percent),
	}
}

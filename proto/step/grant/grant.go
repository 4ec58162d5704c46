// Package grant decides which step of a job gets which of its CPUs, memory and GPUs,
// and which step waits for others.
//
// A Book is what one job's steps have and wait for. It is told of requests and of
// ends, and answers who may start: no clock, no I/O, no randomness, the standard
// library only. So process 1, which has the job's only Book, carries it through a
// save, a restore and a move like any other memory.
//
// What it promises: two steps that count (all but Overlap) never have a CPU, a GPU or
// memory in common, unless one was started from within the other. What can never fit
// is refused at once. What waits is served in the order in which it came: a later step
// passes an earlier one only on nodes that the earlier one does not want. The queue is
// bounded.
package grant

import "fmt"

const (
	// MaxTasks bounds the tasks of a step on one node.
	MaxTasks = 4096
	// MaxStepTasks bounds the tasks of a step: what a terminal or a file could still
	// take the output of.
	MaxStepTasks = 1 << 20
	// MaxWaiting bounds the steps that wait.
	MaxWaiting = 2048
)

// Job is what there is to share.
type Job struct {
	Nodes []Node `json:"nodes"` // in the order of the job
	// Tasks is how many the job asked for; 0 = it gave no number.
	Tasks int `json:"tasks,omitempty"`
}

// Node is the job's part of one node. Its CPUs and GPUs are counted from 0.
type Node struct {
	Name string `json:"name"`
	CPUs int    `json:"cpus"`
	GPUs int    `json:"gpus,omitempty"`
	// MemoryMiB is 0 where memory is not counted.
	MemoryMiB uint64 `json:"memory_mib,omitempty"`
	// Tasks are those that the job laid out here; 0 = not told.
	Tasks int `json:"tasks,omitempty"`
}

// Request is what a step asks for; the zero value of each field is "not said".
type Request struct {
	Tasks        int      `json:"tasks,omitempty"`
	Least        int      `json:"least,omitempty"` // nodes
	Most         int      `json:"most,omitempty"`
	TasksPerNode int      `json:"tasks_per_node,omitempty"`
	CPUsPerTask  int      `json:"cpus_per_task,omitempty"`
	Nodes        []string `json:"nodes,omitempty"` // that must take part
	Exclude      []string `json:"exclude,omitempty"`

	Distribution Distribution `json:"distribution"`
	Memory       Memory       `json:"memory"`
	GPUs         GPUs         `json:"gpus"`

	Overcommit bool `json:"overcommit,omitempty"` // more tasks than CPUs
	// Exact: only the CPUs that the tasks need; otherwise all that are free on the
	// step's nodes.
	Exact bool `json:"exact,omitempty"`
	// Overlap: it takes what others have, and others take what it has.
	Overlap bool `json:"overlap,omitempty"`
	// Parent is the step from within which this one was started. It may have what that
	// one has.
	Parent *uint32 `json:"parent,omitempty"`
}

// Distribution says which task runs on which node (srun(1), --distribution).
type Distribution struct {
	Kind  string   `json:"kind,omitempty"` // "" = Block
	Plane int      `json:"plane,omitempty"`
	Hosts []string `json:"hosts,omitempty"` // Arbitrary: the node of each task
}

// Kinds of distribution.
const (
	Block     = "block"
	Cyclic    = "cyclic"
	Plane     = "plane"
	Arbitrary = "arbitrary"
)

// Memory of a step on each of its nodes. The zero value is the node's part that goes
// with the step's CPUs.
type Memory struct {
	Per string `json:"per,omitempty"` // PerNode, PerCPU
	MiB uint64 `json:"mib,omitempty"` // 0 with Per: none is counted
}

// GPUs of a step. The zero value is all that the job has on the step's nodes.
type GPUs struct {
	Per   string `json:"per,omitempty"` // PerNode, PerStep, PerTask
	Count int    `json:"count,omitempty"`
}

// What an amount is for.
const (
	PerNode = "node"
	PerCPU  = "cpu"
	PerStep = "step"
	PerTask = "task"
)

// Grant is what a step got.
type Grant struct {
	Step     uint32   `json:"step"`
	Shares   []Share  `json:"shares"` // in the order of the job's nodes
	Warnings []string `json:"warnings,omitempty"`
}

// Share is a step's part of one node.
type Share struct {
	Node      int      `json:"node"` // of Job.Nodes
	Ranks     []uint32 `json:"ranks"`
	CPUs      []int    `json:"cpus"`
	GPUs      []int    `json:"gpus,omitempty"`
	MemoryMiB uint64   `json:"memory_mib,omitempty"`
}

// Refusal is why a step can never start: Slurm's sentence, and what is behind it.
type Refusal struct {
	Sentence string `json:"sentence"`
	Detail   string `json:"detail,omitempty"`
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Sentence
	}
	return r.Sentence + "\n" + r.Detail
}

func refuse(sentence, detail string, arguments ...any) *Refusal {
	return &Refusal{Sentence: sentence, Detail: fmt.Sprintf(detail, arguments...)}
}

// Slurm's sentences.
const (
	tooManyCPUs   = "More processors requested than permitted"
	tooMuchMemory = "Memory required by task is not available"
	noSuchNodes   = "Requested node configuration is not available"
	badGRES       = "Invalid generic resource (gres) specification"
	tooManySteps  = "Job/step already has too many steps waiting"
)

package step

import (
	"fmt"
	"math"
)

// BatchStep is the number of the batch script among the steps, as in Slurm.
const BatchStep = math.MaxUint32 - 4

// Record is what a step does, or did, on one node.
type Record struct {
	Step    uint32 `json:"step"`
	Name    string `json:"name"` // of its program
	Tasks   int    `json:"tasks"`
	CPUs    int    `json:"cpus,omitempty"` // that it has
	GPUs    int    `json:"gpus,omitempty"`
	StartMS int64  `json:"start_ms"`
	EndMS   int64  `json:"end_ms,omitempty"` // 0 = it runs
	// Code and Signal are those of the task that ended worst: of two, the one with the
	// higher status, where a signal counts 128 more.
	Code   int `json:"code,omitempty"`
	Signal int `json:"signal,omitempty"`
	// Pids are of the tasks that run, as seen inside the container.
	Pids []int `json:"pids,omitempty"`
	// LocalIDs and GlobalIDs are the numbers of those tasks on this node, and in the step.
	LocalIDs  []uint32 `json:"local_ids,omitempty"`
	GlobalIDs []uint32 `json:"global_ids,omitempty"`

	// Sums are over its tasks. Of a task that has ended, memory is the most that one of
	// its processes had at once; of one that runs, what they have together now.
	Sum Use `json:"sum"`
	// Most has the highest of each, and MostRank the task; LeastUS is the least time.
	Most      Use    `json:"most"`
	MostRank  Ranks  `json:"most_rank"`
	LeastUS   int64  `json:"least_us,omitempty"`
	LeastRank uint32 `json:"least_rank,omitempty"`
	Counted   int    `json:"counted,omitempty"` // tasks that are in the sums
}

// Use is what a task used, with the processes for which it waited.
type Use struct {
	UserUS       int64 `json:"user_us,omitempty"`
	SystemUS     int64 `json:"system_us,omitempty"`
	MemoryKiB    int64 `json:"memory_kib,omitempty"`
	VirtualKiB   int64 `json:"virtual_kib,omitempty"` // only while it runs
	ReadBytes    int64 `json:"read_bytes,omitempty"`  // from disks, and to them
	WrittenBytes int64 `json:"written_bytes,omitempty"`
}

// Ranks are the tasks with the highest use of each kind.
type Ranks struct {
	Memory  uint32 `json:"memory,omitempty"`
	Virtual uint32 `json:"virtual,omitempty"`
	Read    uint32 `json:"read,omitempty"`
	Written uint32 `json:"written,omitempty"`
}

// MaxRecordName bounds the name of a step.
const MaxRecordName = 64

// Add counts what a task used.
func (r *Record) Add(rank uint32, use *Use) {
	if time := use.UserUS + use.SystemUS; r.Counted == 0 || time < r.LeastUS {
		r.LeastUS, r.LeastRank = time, rank
	}
	r.Counted++
	r.Sum.UserUS += use.UserUS
	r.Sum.SystemUS += use.SystemUS
	r.Sum.MemoryKiB += use.MemoryKiB
	r.Sum.VirtualKiB += use.VirtualKiB
	r.Sum.ReadBytes += use.ReadBytes
	r.Sum.WrittenBytes += use.WrittenBytes
	highest := func(most *int64, whose *uint32, mine int64) {
		if mine > *most {
			*most, *whose = mine, rank
		}
	}
	highest(&r.Most.MemoryKiB, &r.MostRank.Memory, use.MemoryKiB)
	highest(&r.Most.VirtualKiB, &r.MostRank.Virtual, use.VirtualKiB)
	highest(&r.Most.ReadBytes, &r.MostRank.Read, use.ReadBytes)
	highest(&r.Most.WrittenBytes, &r.MostRank.Written, use.WrittenBytes)
}

// AddEnd counts how a task ended: with an exit status, or by a signal.
func (r *Record) AddEnd(code, signal int) {
	status := func(code, signal int) int {
		if signal != 0 {
			return 128 + signal
		}
		return code
	}
	if status(code, signal) > status(r.Code, r.Signal) {
		r.Code, r.Signal = code, signal
	}
}

// Steps asks which steps run on this node, the batch script among them; the answer is
// StepList.
type Steps struct{}

// StepList has them in the order of their numbers.
type StepList struct {
	Steps []Record `json:"steps"`
}

// MaxSteps bounds the steps that run on one node.
const MaxSteps = 8192

func (*Steps) kind() Kind    { return KindSteps }
func (*StepList) kind() Kind { return KindStepList }

func checkSteps(m *StepList) error {
	if len(m.Steps) > MaxSteps {
		return fmt.Errorf("%w: %d steps", ErrMalformed, len(m.Steps))
	}
	return nil
}

// Steps asks which steps run.
func (a *Attachment) Steps() ([]Record, error) {
	answer, err := a.question(&Steps{})
	if err != nil {
		return nil, err
	}
	list, ok := answer.(*StepList)
	if !ok {
		return nil, fmt.Errorf("%w: %T in place of the steps", ErrUnexpected, answer)
	}
	return list.Steps, nil
}

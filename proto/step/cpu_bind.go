package step

import "fmt"

// CPUBind says how the tasks of a step are bound to CPUs of its part.
type CPUBind struct {
	Kind        BindKind `json:"kind"`
	CPUsPerTask int      `json:"cpus_per_task,omitempty"`
	// Sets are, for BindSets, the CPUs of the tasks in turn, by the node's numbers.
	Sets [][]int `json:"sets,omitempty"`
	// Verbose: each task says what it is bound to.
	Verbose bool `json:"verbose,omitempty"`
}

// BindKind is what a task gets for itself.
type BindKind string

// The kinds of binding. With none, tasks share the CPUs of their step.
const (
	BindNone    BindKind = ""
	BindThreads BindKind = "threads" // its CPUs
	BindCores   BindKind = "cores"   // the cores that these are of
	BindSockets BindKind = "sockets"
	BindSets    BindKind = "sets"
)

// MaxCPU bounds the numbers of CPUs: what the kernel's own sets have room for.
const MaxCPU = 1024

func checkBind(b *CPUBind) error {
	if b == nil {
		return nil
	}
	ok := b.CPUsPerTask >= 0 && b.CPUsPerTask <= maxNumber && len(b.Sets) <= MaxTasks
	switch b.Kind {
	case BindNone, BindThreads, BindCores, BindSockets:
	case BindSets:
		ok = ok && len(b.Sets) > 0
	default:
		ok = false
	}
	for _, set := range b.Sets {
		ok = ok && len(set) > 0 && len(set) <= MaxCPU
		for _, cpu := range set {
			ok = ok && cpu >= 0 && cpu < MaxCPU
		}
	}
	if !ok {
		return fmt.Errorf("%w: unknown binding to CPUs %q", ErrMalformed, b.Kind)
	}
	return nil
}

package step

import "fmt"

// PMIx is served by a program beside process 1, gpmix, which has the library. They speak
// over its standard input and output, an object of JSON a line: first PMIxJob, which is
// answered by PMIxSaid with Environment; then what tasks do, as PMIxSaid, and for each
// fence a Fenced.

// PMIxJob is the tasks of a step, and which of its nodes the program serves.
type PMIxJob struct {
	Space string     `json:"space"` // of names, of this step only
	Job   string     `json:"job"`
	Nodes []PMIxNode `json:"nodes"`
	Here  int        `json:"here"` // in Nodes
}

// PMIxNode is a node of a step, with the ranks of its tasks, from the first local one on.
type PMIxNode struct {
	Name  string   `json:"name"`
	Ranks []uint32 `json:"ranks"`
}

// Size is the number of tasks on all nodes.
func (j *PMIxJob) Size() int {
	size := 0
	for i := range j.Nodes {
		size += len(j.Nodes[i].Ranks)
	}
	return size
}

// Check refuses a job whose tasks are not counted from 0, and a node that has none.
func (j *PMIxJob) Check() error {
	if j.Here < 0 || j.Here >= len(j.Nodes) || len(j.Nodes[j.Here].Ranks) == 0 {
		return fmt.Errorf("%w: node %d of %d has no tasks", ErrMalformed, j.Here, len(j.Nodes))
	}
	known := make([]bool, j.Size())
	for i := range j.Nodes {
		if len(j.Nodes[i].Ranks) > MaxTasks {
			return fmt.Errorf("%w: %d tasks", ErrMalformed, len(j.Nodes[i].Ranks))
		}
		for _, rank := range j.Nodes[i].Ranks {
			if int(rank) >= len(known) || known[rank] {
				return fmt.Errorf("%w: rank %d of %d tasks", ErrMalformed, rank, len(known))
			}
			known[rank] = true
		}
	}
	return nil
}

// PMIxSaid is one of these.
type PMIxSaid struct {
	// Environment is what the tasks of this node get, in their order.
	Environment []Strings `json:"environment,omitempty"`
	// Fence: all tasks here are at a fence, and have put this.
	Fence *[]byte `json:"fence,omitempty"`
	// Begun and Finalized are ranks.
	Begun     *uint32 `json:"begun,omitempty"`
	Finalized *uint32 `json:"finalized,omitempty"`
	// Abort: a task has given up, and the step with it.
	Abort *PMIxAbort `json:"abort,omitempty"`
	// Failed is why the program cannot serve.
	Failed string `json:"failed,omitempty"`
}

// PMIxAbort is what a task says when it gives up.
type PMIxAbort struct {
	Rank uint32 `json:"rank"`
	Code int    `json:"code"`
	Text string `json:"text"`
}

// PMIxFenced is what all nodes have put.
type PMIxFenced struct {
	Data []byte `json:"data"`
}

// MaxPMIxLine bounds an object of JSON.
const MaxPMIxLine = MaxControlBytes

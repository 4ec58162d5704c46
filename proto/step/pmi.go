package step

import (
	"fmt"
	"maps"
)

// Tasks of an MPI program find each other by PMI: each puts what it has to say into a
// space of keys, and after a fence all can read it. Process 1 of each node serves its own
// tasks. For a fence it sends what they have put with Fence, and the client, which hears
// all nodes, answers each with everything, as Fenced.

// PMI says that the tasks of a Launch are served, and how they lie.
type PMI struct {
	Size int `json:"size"` // tasks of the step, on all nodes
	// Mapping is which tasks run on which node, as MPICH writes it.
	Mapping string `json:"mapping"`
	// Name is of the space of keys.
	Name string `json:"name"`
}

// Fence says that all tasks of a node are at a fence, and what they have put since the one
// before. Aborted: a task has given up, and the step with it.
type Fence struct {
	Pairs Pairs `json:"pairs,omitempty"`
	// Data is what they have put by PMIx, as its library packs it.
	Data    []byte `json:"data,omitempty"`
	Aborted bool   `json:"aborted,omitempty"`
	Code    int    `json:"code,omitempty"` // with Aborted: the exit status
	Text    string `json:"text,omitempty"` // with Aborted: what it said
}

// Fenced is what all nodes have put, with Data in the order of the nodes.
type Fenced struct {
	Pairs Pairs  `json:"pairs,omitempty"`
	Data  []byte `json:"data,omitempty"`
}

// Pairs are keys and their values, which are text without a line's end.
type Pairs map[string]string

// Bounds of what tasks put, that of a frame among them: MPICH puts a few hundred bytes for
// each.
const (
	MaxPMIKey   = 64
	MaxPMIValue = 1024
	MaxPMIBytes = MaxControlBytes / 2
)

// Bytes is how much they are in a frame, about.
func (p Pairs) Bytes() int {
	sum := 0
	for key, value := range p {
		sum += len(key) + len(value) + 8
	}
	return sum
}

// Add adds those of another node.
func (p Pairs) Add(more Pairs) { maps.Copy(p, more) }

func (*Fence) kind() Kind  { return KindFence }
func (*Fenced) kind() Kind { return KindFenced }

func checkFence(pairs Pairs, data []byte) error {
	for key, value := range pairs {
		if len(key) > MaxPMIKey || len(value) > MaxPMIValue {
			return fmt.Errorf("%w: a key of %d bytes with a value of %d", ErrMalformed, len(key), len(value))
		}
	}
	if bytes := pairs.Bytes() + len(data); bytes > MaxPMIBytes {
		return fmt.Errorf("%w: keys of %d bytes", ErrMalformed, bytes)
	}
	return nil
}

// Fenced answers a Fence.
func (c *Client) Fenced(all *Fenced) error { return c.send(all) }

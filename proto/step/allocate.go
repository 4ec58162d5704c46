package step

import (
	"errors"
	"fmt"

	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// Allocate asks for a step's part of the job; only process 1 of the batch host knows
// what the other steps have. The answer is Granted or Failed, or Waits and later one of
// these. The part is the step's until the connection is closed. Launch may follow on the
// same connection; then the part is given back before Done.
type Allocate struct {
	Request grant.Request `json:"request"`
}

// Granted is the step's part, and its number.
type Granted struct {
	Grant grant.Grant `json:"grant"`
}

// Waits says that the step waits for others.
type Waits struct{}

// Release gives the part back. The answer, OK, means that the next step finds it.
type Release struct{}

// Port asks for a port of this node at which the tasks of a step may meet. It is the
// step's until the connection is closed. The answer is PortNumber, or Failed.
type Port struct{}

// PortNumber is a port that no other job of the node was given, and no other running step.
type PortNumber struct {
	Port uint16 `json:"port"`
}

func (*Port) kind() Kind       { return KindPort }
func (*PortNumber) kind() Kind { return KindPortNumber }
func (*Release) kind() Kind    { return KindRelease }
func (*Allocate) kind() Kind   { return KindAllocate }
func (*Granted) kind() Kind    { return KindGranted }
func (*Waits) kind() Kind      { return KindWaits }

func newAllocateControl(kind Kind) Message {
	switch kind {
	case KindAllocate:
		return &Allocate{}
	case KindPort:
		return &Port{}
	case KindPortNumber:
		return &PortNumber{}
	case KindRelease:
		return &Release{}
	case KindGranted:
		return &Granted{}
	case KindWaits:
		return &Waits{}
	}
	return nil
}

// maxNumber bounds every number of a request, so that products of two do not overflow.
const maxNumber = 1 << 30

func checkAllocate(m Message) error {
	switch m := m.(type) {
	case *Allocate:
		r := &m.Request
		for _, n := range []int{r.Tasks, r.Least, r.Most, r.TasksPerNode, r.CPUsPerTask, r.GPUs.Count, r.Distribution.Plane} {
			if n < 0 || n > maxNumber {
				return fmt.Errorf("%w: a step of %d", ErrMalformed, n)
			}
		}
		if r.Memory.MiB > maxNumber || len(r.Distribution.Hosts) > grant.MaxStepTasks {
			return fmt.Errorf("%w: a step of %d MiB with a list of %d hosts", ErrMalformed, r.Memory.MiB, len(r.Distribution.Hosts))
		}
	case *Granted:
		for _, share := range m.Grant.Shares {
			if share.Node < 0 || len(share.Ranks) == 0 || len(share.Ranks) > MaxTasks {
				return fmt.Errorf("%w: %d tasks on node %d", ErrMalformed, len(share.Ranks), share.Node)
			}
		}
	}
	return nil
}

// checkGPUs refuses a task's GPUs that the step does not have.
func checkGPUs(share *Share, gpus []int) error {
	for _, gpu := range gpus {
		if share == nil || gpu < 0 || gpu >= len(share.GPUs) {
			return fmt.Errorf("%w: a task with a GPU that its step does not have", ErrMalformed)
		}
	}
	return nil
}

// Allocate asks for the step's part of the job, and waits until it is there; waits is
// called once if others have it. Close ends the wait.
func (c *Client) Allocate(request *grant.Request, waits func()) (*grant.Grant, error) {
	ask := &Allocate{Request: *request}
	if err := checkAllocate(ask); err != nil {
		return nil, err
	}
	if err := c.send(ask); err != nil {
		return nil, err
	}
	for waited := false; ; {
		answer, err := c.reader.Read()
		if err != nil {
			return nil, fmt.Errorf("step protocol: read answer: %w", err)
		}
		switch answer := answer.(type) {
		case *Granted:
			return &answer.Grant, nil
		case *Failed:
			return nil, errors.New(answer.Text)
		case *Waits:
			if !waited {
				waits()
			}
			waited = true
		default:
			return nil, fmt.Errorf("%w: %T in place of a grant", ErrUnexpected, answer)
		}
	}
}

// Release gives back what Allocate got.
func (c *Client) Release() error { return c.askOK(&Release{}) }

// Port asks for a port; it is an error if the node has none.
func (c *Client) Port() (uint16, error) {
	answer, err := c.ask(&Port{})
	if err != nil {
		return 0, err
	}
	number, ok := answer.(*PortNumber)
	if !ok {
		return 0, fmt.Errorf("%w: %T in place of a port", ErrUnexpected, answer)
	}
	return number.Port, nil
}

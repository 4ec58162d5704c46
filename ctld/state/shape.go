package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// Shape is what the scheduler sees of a spec: jobs of one shape fit or do not
// fit together. It is derived from the spec, shared and never changed.
type Shape struct {
	Partitions []string      `cbor:"1,keyasint"` // in order of preference
	Root       bool          `cbor:"2,keyasint"` // needs a partition that allows root's jobs
	TimeLimitS uint32        `cbor:"3,keyasint"`
	Request    place.Request `cbor:"4,keyasint"`
	// SwitchesWaitS: see sched.Shape.
	SwitchesWaitS  uint32 `cbor:"5,keyasint"`
	PrivateNetwork bool   `cbor:"6,keyasint,omitempty"`
	TimeMinS       uint32 `cbor:"7,keyasint,omitempty"`

	digest Digest
	slot   uint32 // tells the shapes of one state apart; small
}

// Digest tells shapes apart.
func (s *Shape) Digest() Digest { return s.digest }

// Scheduled is the shape in a snapshot that was made under this policy.
func SchedShape(p *policy.Policy, shape *Shape) sched.Shape {
	out := sched.Shape{
		TimeLimitS: shape.TimeLimitS, TimeMinS: shape.TimeMinS, Root: shape.Root, Request: shape.Request, SwitchesWaitS: shape.SwitchesWaitS,
		PrivateNetwork: shape.PrivateNetwork,
	}
	for _, name := range shape.Partitions {
		if at, found := p.IndexOf(name); found {
			out.Partitions = append(out.Partitions, at)
		}
	}
	return out
}

// shapeOf derives the shape of a spec. The error says what a user got
// wrong in a host list, constraint or GPU request.
func shapeOf(r *Spec, owner *Owner) (*Shape, error) {
	shape := &Shape{
		Partitions: r.Partitions,
		Root:       owner.UID == 0,
		TimeLimitS: r.TimeLimitS,
		TimeMinS:   r.TimeMinS,
		Request:    requestOf(r),

		SwitchesWaitS:  r.SwitchesWaitS,
		PrivateNetwork: r.Network == pb.Network_NETWORK_PRIVATE || r.Network == pb.Network_NETWORK_AUTO,
	}
	for _, step := range []func(*Spec) error{shape.fillLists, shape.fillGPUs, shape.fillPerGPU, shape.checkCounts} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	shape.digest = recordDigest(shape)
	return shape, nil
}

// requestOf fills in the fields of a request that need no parsing.
func requestOf(r *Spec) place.Request {
	return place.Request{
		MinNodes:      r.MinNodes,
		MaxNodes:      r.MaxNodes,
		MostNodes:     r.SpreadJob || r.MaxNodes > r.MinNodes && !r.UseMinNodes,
		Tasks:         r.Tasks,
		TasksPerNode:  r.TasksPerNode,
		EvenTasks:     r.SpreadJob,
		CPUsPerTask:   max(r.CPUsPerTask, 1),
		CPUsPerGPU:    r.CPUsPerGPU,
		MemoryPerNode: r.MemoryPerNode,
		MemoryPerCPU:  r.MemoryPerCPU,
		MemoryPerGPU:  r.MemoryPerGPU,
		TmpPerNode:    r.TmpPerNode,
		Switches:      r.Switches,
		Contiguous:    r.Contiguous,
		Exclusive:     r.Exclusive,
		ExclusiveUser: r.ExclusiveUser,
	}
}

func (s *Shape) fillLists(r *Spec) error {
	required, err := sortedHosts(r.NodeList)
	if err != nil {
		return err
	}
	excluded, err := sortedHosts(r.ExcludeNodes)
	if err != nil {
		return err
	}
	for _, name := range required {
		if _, both := slices.BinarySearch(excluded, name); both {
			return fmt.Errorf("node %s is both required and excluded: remove it from one of the lists", name)
		}
	}
	s.Request.RequiredNodes, s.Request.ExcludedNodes = required, excluded
	if r.Constraint == "" {
		return nil
	}
	constraint, err := spec.ParseConstraint(r.Constraint)
	if err != nil {
		return err
	}
	s.Request.Constraint = constraintOf(constraint)
	return nil
}

// constraintOf is a constraint as the scheduler reads it.
func constraintOf(c spec.Constraint) place.Constraint {
	out := place.Constraint{Each: expressionOf(c.Each)}
	for _, group := range c.Groups {
		out.Groups = append(out.Groups, place.Group{Count: group.Count, Of: expressionOf(group.Of)})
	}
	for _, one := range c.OneOf {
		out.OneOf = append(out.OneOf, expressionOf(one))
	}
	return out
}

func expressionOf(e spec.FeatureExpression) place.Expression {
	var out place.Expression
	for _, step := range e {
		op := place.Has
		switch step.Op {
		case '!':
			op = place.Not
		case '&':
			op = place.And
		case '|':
			op = place.Or
		}
		out = append(out, place.Step{Op: op, Feature: step.Feature})
	}
	return out
}

func sortedHosts(list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	names, err := spec.ParseHostList(list)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (s *Shape) fillGPUs(r *Spec) error {
	for _, gpu := range r.GPUs {
		if gpu.Model != "" {
			if s.Request.Model != "" && s.Request.Model != gpu.Model {
				return fmt.Errorf("GPUs of two models (%s and %s) are asked for: a job gets one model", s.Request.Model, gpu.Model)
			}
			s.Request.Model = gpu.Model
		}
		if gpu.Shares != 0 {
			return fmt.Errorf("shares of a GPU are not supported: ask for whole GPUs")
		}
		if gpu.Count > spec.MaxGPUs {
			return fmt.Errorf("%d GPUs are asked for: at most %d can be", gpu.Count, spec.MaxGPUs)
		}
		switch gpu.Scope {
		case pb.GpuScope_GPU_SCOPE_NODE:
			s.Request.GPUsPerNode += gpu.Count
		case pb.GpuScope_GPU_SCOPE_JOB, pb.GpuScope_GPU_SCOPE_UNSPECIFIED:
			s.Request.GPUsPerJob += gpu.Count
		case pb.GpuScope_GPU_SCOPE_TASK:
			s.Request.GPUsPerTask += gpu.Count
		default:
			return fmt.Errorf("GPUs of scope %d are not supported: use --gpus, --gpus-per-node or --gpus-per-task", gpu.Scope)
		}
	}
	return nil
}

// checkCounts refuses counts that no set of nodes can meet. Counts that were
// not given are left to the scheduler (place.Request.NodeBounds).
func (s *Shape) checkCounts(*Spec) error {
	r := &s.Request
	if r.MaxNodes != 0 && r.MaxNodes < r.MinNodes {
		return fmt.Errorf("node count specification invalid: at least %d nodes, but at most %d", r.MinNodes, r.MaxNodes)
	}
	if r.GPUsPerNode > 0 && r.GPUsPerJob%r.GPUsPerNode != 0 {
		return fmt.Errorf("%d GPUs in all cannot be %d on each node: make --gpus a multiple of --gpus-per-node, or give one of the two", r.GPUsPerJob, r.GPUsPerNode)
	}
	for _, check := range []func(*place.Request) error{checkGPUCounts, checkTaskCounts} {
		if err := check(r); err != nil {
			return err
		}
	}
	if low, high := r.NodeBounds(); low > high {
		return fmt.Errorf("node count specification invalid: the tasks, GPUs, features and listed nodes need at least %d nodes, but at most %d may be used", low, high)
	}
	return nil
}

// checkTaskCounts compares the tasks, and the nodes that are named, with the
// nodes that may be used. Fewer tasks than the nodes could have are no
// contradiction: together with --ntasks, --ntasks-per-node is the maximum
// (sbatch(1)).
func checkTaskCounts(r *place.Request) error {
	if r.MaxNodes == 0 {
		return nil
	}
	most := uint64(r.MaxNodes) * uint64(r.TasksPerNode)
	if tasks := uint64(r.Tasks); r.TasksPerNode > 0 && tasks > most {
		return fmt.Errorf("--ntasks=%d is more than --nodes=%d with --ntasks-per-node=%d have, which is %d: type --nodes=%d, or leave --ntasks out",
			tasks, r.MaxNodes, r.TasksPerNode, most, (tasks+uint64(r.TasksPerNode)-1)/uint64(r.TasksPerNode))
	}
	if named := len(r.RequiredNodes); named > int(r.MaxNodes) {
		return fmt.Errorf("--nodelist names %d nodes, and --nodes allows %d: type --nodes=%d, or leave --nodes out", named, r.MaxNodes, named)
	}
	return nil
}

// checkGPUCounts compares GPUs in all and on each node with the requested
// nodes.
func checkGPUCounts(r *place.Request) error {
	if r.GPUsPerNode == 0 || r.GPUsPerJob == 0 {
		return nil
	}
	nodes, least, most := r.GPUsPerJob/r.GPUsPerNode, max(r.MinNodes, 1), r.MaxNodes
	words := fmt.Sprintf("%d nodes", nodes)
	if nodes == 1 {
		words = "1 node"
	}
	switch {
	case nodes < least:
		return fmt.Errorf("--gpus=%d with --gpus-per-node=%d is %s, and --nodes asks for %d: type --gpus=%d, or leave --gpus out", r.GPUsPerJob, r.GPUsPerNode, words, least, least*r.GPUsPerNode)
	case most > 0 && nodes > most:
		return fmt.Errorf("--gpus=%d with --gpus-per-node=%d is %s, and --nodes allows %d: type --nodes=%d, or leave --gpus out", r.GPUsPerJob, r.GPUsPerNode, words, most, nodes)
	}
	return nil
}

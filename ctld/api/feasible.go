package api

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// machinesTTL is how long what the nodes have is taken from an earlier look. A
// job is refused only after a new look.
const machinesTTL = time.Second

// machines remembers what the nodes have, because every submission asks.
type machines struct {
	mu       sync.Mutex
	snapshot sched.Snapshot
	known    bool // some node has registered
	policy   *state.Policy
	until    time.Time
}

// look answers what the nodes have.
func (m *machines) look(view *state.View, fresh bool) (sched.Snapshot, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); fresh || m.policy != view.Policy() || now.After(m.until) {
		m.snapshot = view.SchedSnapshot(now.UnixMilli())
		m.snapshot.Shapes, m.snapshot.Waiting, m.snapshot.Running = nil, nil, nil
		m.policy, m.until, m.known = view.Policy(), now.Add(machinesTTL), false
		for node := range view.Nodes() {
			m.known = m.known || node.Inventory != nil
		}
	}
	return m.snapshot, m.known
}

// checkFeasible refuses what could not run even if every node that has ever
// registered were up and idle. Before the first node has, everything waits.
func (s *Server) checkFeasible(view *state.View, command *state.SubmitJob) error {
	for _, fresh := range []bool{false, true} {
		snapshot, known := s.machines.look(view, fresh)
		if !known {
			continue
		}
		shape, ok := shapeOf(&snapshot, &command.Request, view.Policy())
		if !ok {
			return nil // an unknown partition is refused, by name, when applied
		}
		reason, feasible := sched.Feasible(snapshot, shape)
		if feasible {
			return nil
		}
		if fresh {
			return invalid("Requested node configuration is not available: %s", reason.Sentence(snapshot))
		}
	}
	return nil
}

// shapeOf is what the scheduler will see of the request.
func shapeOf(snapshot *sched.Snapshot, request *state.Request, policy *state.Policy) (sched.Shape, bool) {
	partitions := partitionsOf(request, policy)
	shape := sched.Shape{TimeLimitS: request.TimeLimitS, Request: place.Request{
		MinNodes: max(request.MinNodes, 1), MaxNodes: request.MaxNodes,
		Tasks: request.Tasks, TasksPerNode: request.TasksPerNode, CPUsPerTask: max(request.CPUsPerTask, 1),
		MemoryPerNode: request.MemoryPerNode, MemoryPerCPU: request.MemoryPerCPU,
		RequiredNodes: sortedHosts(request.NodeList), ExcludedNodes: sortedHosts(request.ExcludeNodes),
		Exclusive: request.Exclusive,
	}}
	r := &shape.Request
	if r.MaxNodes == 0 {
		r.MaxNodes = r.MinNodes
		if r.MinNodes == 1 && r.Tasks > 1 {
			r.MaxNodes = r.Tasks
		}
	}
	if request.Constraint != "" {
		r.Features = strings.Split(request.Constraint, "&")
		slices.Sort(r.Features)
		r.Features = slices.Compact(r.Features)
	}
	for _, gpu := range request.GPUs {
		r.Model = cmp.Or(r.Model, gpu.Model)
		if gpu.Scope == pb.GpuScope_GPU_SCOPE_NODE {
			r.GPUsPerNode += gpu.Count
		} else {
			r.GPUsPerJob += gpu.Count
		}
	}
	for _, name := range partitions {
		at := slices.IndexFunc(snapshot.Partitions, func(p sched.Partition) bool { return p.Name == name })
		if at < 0 {
			return shape, false
		}
		shape.Partitions = append(shape.Partitions, at)
	}
	if r.MemoryPerNode == 0 && r.MemoryPerCPU == 0 && len(partitions) > 0 {
		if partition, known := policy.Partition(partitions[0]); known {
			r.MemoryPerCPU = partition.DefaultMemoryPerCPU
		}
	}
	return shape, len(partitions) > 0
}

// partitionsOf are those asked for, or the default one.
func partitionsOf(request *state.Request, policy *state.Policy) []string {
	if len(request.Partitions) > 0 {
		return request.Partitions
	}
	for i := range policy.Partitions {
		if policy.Partitions[i].Default {
			return []string{policy.Partitions[i].Name}
		}
	}
	return nil
}

func sortedHosts(list string) []string {
	if list == "" {
		return nil
	}
	names, err := spec.ParseHostList(list)
	if err != nil {
		return nil // refused before
	}
	slices.Sort(names)
	return names
}

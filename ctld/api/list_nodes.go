package api

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxNodesPerMessage bounds one message of the list of nodes.
const maxNodesPerMessage = 200

// ListNodes streams the requested nodes, by name. An unknown name is left out.
func (s *Controller) ListNodes(request *pb.ListNodesRequest, stream pb.Controller_ListNodesServer) error {
	from, err := s.reader(stream.Context())
	if err != nil {
		return err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	matches, err := nodeFilter(view, request)
	if err != nil {
		return err
	}
	if may.hides("nodes") {
		return nil
	}
	message, bytes := &pb.ListNodesResponse{}, 0
	for node := range view.Nodes() {
		if !matches(node) {
			continue
		}
		shown := may.node(s.nodeMessage(view, node))
		message.Nodes = append(message.Nodes, shown)
		bytes += proto.Size(shown)
		if len(message.Nodes) == maxNodesPerMessage || bytes >= maxBytesPerMessage {
			if err := stream.Send(message); err != nil {
				return err
			}
			message, bytes = &pb.ListNodesResponse{}, 0
		}
	}
	if len(message.Nodes) == 0 {
		return nil
	}
	return stream.Send(message)
}

// nodeMessage is a node as the state and the leader know it.
func (s *Controller) nodeMessage(view *state.View, node *state.Node) *pb.Node {
	shown := view.NodeMessage(node)
	shown.Fencing = cmp.Or(s.loops.Fencing(node.Name), shown.Fencing)
	if link := s.loops.Sessions().Get(node.Name); link != nil {
		for _, alloc := range link.Frozen() {
			shown.FrozenJobs = append(shown.FrozenJobs, alloc.Job)
		}
		shown.Load = link.Load()
	}
	return shown
}

func nodeFilter(view *state.View, request *pb.ListNodesRequest) (func(*state.Node) bool, error) {
	var names map[string]bool
	if request.GetNames() != "" {
		list, err := spec.ParseHostList(request.GetNames())
		if err != nil {
			return nil, invalid("Invalid node name specified: %v", err)
		}
		names = setOf(list)
	}
	var partitions []*policy.Partition
	for name := range setOf(request.GetPartitions()) { // each once, or a long list of one name costs a look at all nodes each
		if partition, known := view.Policy().Partition(name); known {
			partitions = append(partitions, partition)
		}
	}
	return func(node *state.Node) bool {
		return (names == nil || names[node.Name]) &&
			(len(request.GetPartitions()) == 0 || slices.ContainsFunc(partitions, func(p *policy.Partition) bool { return p.Has(node.Name) }))
	}, nil
}

// ListPartitions returns all partitions, by name.
func (s *Controller) ListPartitions(ctx context.Context, _ *pb.ListPartitionsRequest) (*pb.ListPartitionsResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	view := s.cluster.View()
	if s.sightOf(from, view).hides("partitions") {
		return &pb.ListPartitionsResponse{}, nil
	}
	site := policy.Message(view.Policy())
	for _, partition := range site.Partitions {
		partition.PreemptMode = cmp.Or(partition.PreemptMode, site.Preempt.Mode) // the one in force
		partition.Network = cmp.Or(partition.Network, site.Network)
		if in, known := view.Policy().Partition(partition.Name); known {
			partition.Outside = view.Policy().OutsideOf(in).Message()
		}
		partition.DefaultMemoryPerCpuBytes = cmp.Or(partition.DefaultMemoryPerCpuBytes, site.DefaultMemoryPerCpuBytes)
		partition.DefaultMemoryPerGpuBytes = cmp.Or(partition.DefaultMemoryPerGpuBytes, site.DefaultMemoryPerGpuBytes)
	}
	return &pb.ListPartitionsResponse{Partitions: site.Partitions}, nil
}

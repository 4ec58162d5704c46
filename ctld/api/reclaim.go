package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxReclaimS is how long a reclaim that ends by itself may last: what is longer is no
// loan, and belongs into cluster.toml.
const maxReclaimS = 366 * 24 * 3600

// ReclaimNodes takes nodes back for their owner: coordinators of the owner's account may,
// and operators and administrators on every node. In a dry run it says what would happen.
func (s *Controller) ReclaimNodes(ctx context.Context, request *pb.ReclaimNodesRequest) (*pb.ReclaimNodesResponse, error) {
	from, id, err := s.ownersRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	names, err := s.ownersNodes(from, view, request.GetNames())
	if err != nil {
		return nil, err
	}
	noteNode(ctx, spec.FormatHostList(names))
	if _, known := s.cluster.Remembered(id, state.KindReclaimNodes); known {
		return &pb.ReclaimNodesResponse{Nodes: s.shownNodes(may, view, reclaimedOf(view, names))}, nil
	}
	now := time.Now()
	command := state.ReclaimNodes{
		Names: names, Kill: request.GetKill(), User: from.shownName(), Coordinator: s.coordinator(from), Privileged: s.levelOf(from, view) >= state.Operator,
		GPUs: request.GetGpus(), Model: request.GetModel(),
	}
	if command.WithinMS, command.UntilMS, err = reclaimTimes(request, now.UnixMilli()); err != nil {
		return nil, err
	}
	wouldBe, refused := view.TryReclaim(command, now.UnixMilli())
	if refused != nil {
		return nil, may.refusedNodes(refused)
	}
	if request.GetDryRun() {
		answer := &pb.ReclaimNodesResponse{}
		for _, node := range wouldBe {
			answer.Nodes = append(answer.Nodes, may.node(node))
		}
		return answer, nil
	}
	result, err := s.propose(ctx, command, id)
	if err != nil {
		return nil, err
	}
	view = s.cluster.View()
	if request.GetGpus() != 0 {
		if names = result.Nodes; result.Repeated {
			names = reclaimedOf(view, command.Names)
		}
	}
	return &pb.ReclaimNodesResponse{Nodes: s.shownNodes(s.sightOf(from, view), view, names)}, nil
}

// reclaimedOf are those of some nodes that are reclaimed now.
func reclaimedOf(view *state.View, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		node, known := view.Node(name)
		return !known || node.Reclaim == nil
	})
}

// ReleaseNodes lends reclaimed nodes again. Those who may reclaim a node may release it.
func (s *Controller) ReleaseNodes(ctx context.Context, request *pb.ReleaseNodesRequest) (*pb.ReleaseNodesResponse, error) {
	from, id, err := s.ownersRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	view := s.cluster.View()
	names, err := s.ownersNodes(from, view, request.GetNames())
	if err != nil {
		return nil, err
	}
	if request.GetNames() == "" {
		names = reclaimedOf(view, names)
	}
	noteNode(ctx, spec.FormatHostList(names))
	if len(names) == 0 {
		return &pb.ReleaseNodesResponse{}, nil
	}
	ended := make(map[string]*pb.Reclaim, len(names))
	for _, name := range names {
		if node, known := view.Node(name); known {
			ended[name] = view.NodeMessage(node).Reclaim
		}
	}
	command := state.ReleaseNodes{
		Names: names, User: from.shownName(), Coordinator: s.coordinator(from), Privileged: s.levelOf(from, view) >= state.Operator,
	}
	result, err := s.propose(ctx, command, id)
	if err != nil {
		return nil, s.sightOf(from, view).concealNodes(err)
	}
	if result.Repeated { // the first answer was lost, and which nodes were in it is not kept
		result.Nodes = names
	}
	view = s.cluster.View()
	may := s.sightOf(from, view)
	answer := &pb.ReleaseNodesResponse{}
	for _, name := range result.Nodes {
		if node, known := view.Node(name); known {
			message := s.nodeMessage(view, node)
			message.Reclaim = ended[name]
			answer.Nodes = append(answer.Nodes, may.node(message))
		}
	}
	return answer, nil
}

// ownersRequest determines the caller of a request that owners make. From inside a job
// nobody has an owner's rights: whoever can have a job run could have it reclaim.
func (s *Controller) ownersRequest(ctx context.Context, requested string) (*caller, state.RequestID, error) {
	from, id, err := s.confirmedRequest(ctx, requested)
	if err != nil {
		return nil, id, err
	}
	if from.owner != nil {
		return nil, id, status.Error(codes.PermissionDenied, "Access/permission denied: nodes cannot be reclaimed or released from inside a job")
	}
	return from, id, nil
}

// confirmedRequest determines the caller and the id of a request that is decided by the
// present state.
func (s *Controller) confirmedRequest(ctx context.Context, requested string) (*caller, state.RequestID, error) {
	from, err := s.mustBeUser(ctx)
	if err != nil {
		return nil, state.RequestID{}, err
	}
	id, err := requestID(requested)
	if err != nil {
		return nil, id, err
	}
	return from, id, s.confirm(ctx)
}

// ownersNodes are the nodes that an owner's request names; "" is all nodes of the accounts
// that the caller coordinates. An administrator has to name nodes: all of the site's are
// never meant.
func (s *Controller) ownersNodes(from *caller, view *state.View, list string) ([]string, error) {
	if list != "" {
		if strings.EqualFold(list, "ALL") {
			return nil, invalid("Invalid node name specified: name the nodes, or leave the list out for all nodes of the accounts that you coordinate")
		}
		names, err := spec.ParseHostList(list)
		switch {
		case err != nil:
			return nil, invalid("Invalid node name specified: %v", err)
		case len(names) == 0:
			return nil, invalid("Invalid node name specified: no node is named")
		}
		slices.Sort(names)
		return slices.Compact(names), nil
	}
	var names []string
	if coordinator := s.coordinator(from); coordinator != "" {
		names = view.NodesOwnedBy(coordinator)
	}
	if len(names) == 0 {
		return nil, status.Error(codes.FailedPrecondition, "you coordinate no account that owns nodes: name the nodes, or ask an administrator for an [[owner]] in cluster.toml and for gacctmgr add coordinator")
	}
	return names, nil
}

// reclaimTimes are the deadline of a reclaim's guests, counted from the log's time, and
// when it ends.
func reclaimTimes(request *pb.ReclaimNodesRequest, nowMS int64) (withinMS, untilMS int64, err error) {
	withinMS, untilMS = int64(request.GetWithinS())*1000, request.GetUntilMs()
	switch {
	case request.GetForS() != 0 && untilMS != 0:
		return 0, 0, invalid("the end of the reclaim is given twice: use --for or --until")
	case untilMS < 0, untilMS > 0 && untilMS <= nowMS:
		return 0, 0, invalid("the end of the reclaim is past: give a --until that is to come")
	case request.GetForS() != 0:
		untilMS = nowMS + int64(request.GetForS())*1000
	}
	if untilMS > nowMS+maxReclaimS*1000 {
		return 0, 0, invalid("the reclaim would last longer than a year: leave out --for and --until, and it lasts until grelease")
	}
	return withinMS, untilMS, nil
}

// shownNodes are nodes as the caller may see them.
func (s *Controller) shownNodes(may *sight, view *state.View, names []string) []*pb.Node {
	var nodes []*pb.Node
	for _, name := range names {
		if node, known := view.Node(name); known {
			nodes = append(nodes, may.node(s.nodeMessage(view, node)))
		}
	}
	return nodes
}

// shownName is the caller's name as others see it: a number where there is none.
func (c *caller) shownName() string {
	if name := c.name(); name != "" {
		return name
	}
	return c.String()
}

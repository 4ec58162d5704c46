package api

import (
	"context"
	"strings"
	"unicode"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// UpdateNode drains, resumes or deletes nodes.
func (s *Controller) UpdateNode(ctx context.Context, request *pb.UpdateNodeRequest) (*pb.UpdateNodeResponse, error) {
	from, coordinator, err := s.mayUpdateNodes(ctx, request)
	if err != nil {
		return nil, err
	}
	id, err := requestID(request.GetRequestId())
	if err != nil {
		return nil, err
	}
	action := state.NodeActionFromMessage(request.GetAction())
	if action == 0 {
		return nil, invalid("no such node state: use state=drain, state=resume, state=down or state=fenced")
	}
	names, err := s.nodeNames(request.GetNames())
	if err != nil {
		return nil, err
	}
	reason := strings.TrimSpace(request.GetReason())
	if strings.ContainsFunc(reason, unicode.IsControl) {
		return nil, invalid("the reason holds a line break or another control character: leave it out")
	}
	_, err = s.propose(ctx, state.UpdateNodes{
		Names: names, Action: action, Reason: reason, User: from.name(),
		Evacuate: request.GetEvacuate(), WithinMS: int64(request.GetWithinS()) * 1000, Coordinator: coordinator,
	}, id)
	if err != nil {
		return nil, err
	}
	s.metrics.updates.WithLabelValues(actionWord(request.GetAction())).Inc()
	return &pb.UpdateNodeResponse{}, nil
}

// mayUpdateNodes refuses callers that may not change nodes. Operators may have them
// evacuated. Coordinators of the accounts
// that own them may have them evacuated, and take that back: the state judges that, by
// the name that is returned.
func (s *Controller) mayUpdateNodes(ctx context.Context, request *pb.UpdateNodeRequest) (from *caller, coordinator string, err error) {
	from, err = s.mustAdminister(ctx)
	if err == nil || !request.GetEvacuate() && request.GetAction() != pb.NodeAction_NODE_ACTION_RESUME {
		return from, "", err
	}
	owner, _, refused := s.ownersRequest(ctx, request.GetRequestId())
	if refused != nil {
		return nil, "", err
	}
	view := s.cluster.View()
	if request.GetEvacuate() && s.levelOf(owner, view) >= state.Operator {
		return owner, "", nil
	}
	if coordinator = s.coordinator(owner); coordinator == "" || len(view.NodesOwnedBy(coordinator)) == 0 {
		return nil, "", err
	}
	return owner, coordinator, nil
}

// nodeNames expands a host list; ALL means every node.
func (s *Controller) nodeNames(list string) ([]string, error) {
	if !strings.EqualFold(list, "ALL") {
		names, err := spec.ParseHostList(list)
		if err != nil {
			return nil, invalid("Invalid node name specified: %v", err)
		}
		return names, nil
	}
	var names []string
	for node := range s.cluster.View().Nodes() {
		names = append(names, node.Name)
	}
	return names, nil
}

// actionWord names an action as gcontrol does: drain.
func actionWord(action pb.NodeAction) string {
	return strings.ToLower(strings.TrimPrefix(action.String(), "NODE_ACTION_"))
}

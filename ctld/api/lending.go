package api

import (
	"context"
	"time"
	_ "time/tzdata" // so that all controllers know the same zones, whatever is installed

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// SetLending changes on what terms nodes are lent: those who may reclaim a node may. In a
// dry run it says what the nodes would be; without settings and names that is how the
// caller's nodes are, and for administrators who own none how all are.
func (s *Controller) SetLending(ctx context.Context, request *pb.SetLendingRequest) (*pb.SetLendingResponse, error) {
	from, id, err := s.ownersRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	view := s.cluster.View()
	may := s.sightOf(from, view)
	asks := request.GetDryRun() && !request.GetFromDefault() && len(request.GetSettings()) == 0
	if asks && request.GetNames() == "" && s.levelOf(from, view) >= state.Operator && len(view.NodesOwnedBy(s.coordinator(from))) == 0 {
		return &pb.SetLendingResponse{Nodes: s.shownNodes(may, view, allNames(view))}, nil
	}
	names, err := s.ownersNodes(from, view, request.GetNames())
	if err != nil {
		return nil, err
	}
	if asks && request.GetNames() == "" {
		return &pb.SetLendingResponse{Nodes: s.shownNodes(may, view, names)}, nil
	}
	noteNode(ctx, spec.FormatHostList(names))
	if _, known := s.cluster.Remembered(id, state.KindSetLending); known {
		return &pb.SetLendingResponse{Nodes: s.shownNodes(may, view, names)}, nil
	}
	if err := knownZone(request.GetLending().GetTimeZone()); err != nil {
		return nil, err
	}
	command := state.SetLending{
		Names: names, Lending: state.LendingFromMessage(request.GetLending()), Settings: request.GetSettings(), Reset: request.GetFromDefault(),
		User: from.shownName(), Coordinator: s.coordinator(from), Privileged: s.levelOf(from, view) >= state.Operator,
	}
	wouldBe, refused := view.TryLending(command, time.Now().UnixMilli())
	if refused != nil {
		return nil, may.refusedNodes(refused)
	}
	if request.GetDryRun() {
		answer := &pb.SetLendingResponse{}
		for _, node := range wouldBe {
			answer.Nodes = append(answer.Nodes, may.node(node))
		}
		return answer, nil
	}
	if _, err := s.propose(ctx, command, id); err != nil {
		return nil, may.concealNodes(err)
	}
	view = s.cluster.View()
	return &pb.SetLendingResponse{Nodes: s.shownNodes(s.sightOf(from, view), view, names)}, nil
}

// knownZone refuses a time zone that this controller does not know. "Local" would be
// another one on each controller.
func knownZone(name string) error {
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		return invalid("time zone %.64q is not known: use a name such as Europe/Berlin, or UTC", name)
	}
	return nil
}

func allNames(view *state.View) []string {
	var names []string
	for node := range view.Nodes() {
		names = append(names, node.Name)
	}
	return names
}

// ReportLending is the record of the owners whose accounts the caller coordinates, and for
// administrators and operators that of all.
func (s *Controller) ReportLending(ctx context.Context, request *pb.ReportLendingRequest) (*pb.ReportLendingResponse, error) {
	from, _, err := s.ownersRequest(ctx, "")
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	since, until := request.GetSinceMs(), request.GetUntilMs()
	if until == 0 {
		until = now
	}
	if since < 0 || until < since {
		return nil, invalid("the end of the report is before its beginning: give a --since that is before --until")
	}
	view := s.cluster.View()
	owners := view.OwnersOf(s.coordinator(from), s.levelOf(from, view) >= state.Operator)
	if len(owners) == 0 {
		return nil, status.Error(codes.FailedPrecondition, "you coordinate no account that owns nodes: ask an administrator for an [[owner]] in cluster.toml and for gacctmgr add coordinator")
	}
	answer, hides := &pb.ReportLendingResponse{}, s.sightOf(from, view).hides("accounts")
	for _, owner := range owners {
		report := view.OwnerReport(owner, since, until, now)
		if hides {
			for _, use := range append(report.Lent, report.Borrowed...) {
				use.Account = ""
			}
		}
		answer.Owners = append(answer.Owners, report)
	}
	return answer, nil
}

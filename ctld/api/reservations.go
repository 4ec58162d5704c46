package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// CreateReservation makes a reservation of the nodes that the request names, or of as many
// as it asks for, which are chosen here.
func (s *Controller) CreateReservation(ctx context.Context, request *pb.CreateReservationRequest) (*pb.CreateReservationResponse, error) {
	from, id, err := s.reservationsRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if before, known := s.cluster.Remembered(id, state.KindCreateReservation); known {
		return &pb.CreateReservationResponse{Reservation: s.reservationOf(from.shownName(), before.TimeMS)}, nil
	}
	view := s.cluster.View()
	wanted := request.GetReservation()
	nodes, err := reservedNodes(view, wanted)
	if err != nil {
		return nil, err
	}
	if err := checkReservedUsers(wanted.GetUsers()); err != nil {
		return nil, err
	}
	r := state.ReservationFromMessage(wanted, nodes)
	if len(nodes) == 0 && (request.GetNodeCount() > 0 || request.GetGpuCount() > 0) {
		if r.Nodes, err = chooseReserved(view, &r, request); err != nil {
			return nil, err
		}
	}
	result, err := s.propose(ctx, state.CreateReservation{Reservation: r, User: from.shownName()}, id)
	if err != nil {
		return nil, err
	}
	return &pb.CreateReservationResponse{Reservation: s.reservationNamed(result.Reservation)}, nil
}

// UpdateReservation changes what the request names.
func (s *Controller) UpdateReservation(ctx context.Context, request *pb.UpdateReservationRequest) (*pb.UpdateReservationResponse, error) {
	from, id, err := s.reservationsRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	wanted := request.GetReservation()
	if _, known := s.cluster.Remembered(id, state.KindUpdateReservation); known {
		return &pb.UpdateReservationResponse{Reservation: s.reservationNamed(wanted.GetName())}, nil
	}
	if len(request.GetFields()) == 0 {
		return nil, invalid("nothing is to be changed: give a setting, as in EndTime=18:00")
	}
	nodes, err := reservedNodes(s.cluster.View(), wanted)
	if err != nil {
		return nil, err
	}
	if err := checkReservedUsers(wanted.GetUsers()); err != nil {
		return nil, err
	}
	command := state.UpdateReservation{Reservation: state.ReservationFromMessage(wanted, nodes), Fields: request.GetFields(), User: from.shownName()}
	if _, err := s.propose(ctx, command, id); err != nil {
		return nil, err
	}
	return &pb.UpdateReservationResponse{Reservation: s.reservationNamed(wanted.GetName())}, nil
}

// DeleteReservation forgets a reservation.
func (s *Controller) DeleteReservation(ctx context.Context, request *pb.DeleteReservationRequest) (*pb.DeleteReservationResponse, error) {
	_, id, err := s.reservationsRequest(ctx, request.GetRequestId())
	if err != nil {
		return nil, err
	}
	if _, known := s.cluster.Remembered(id, state.KindDeleteReservation); !known {
		if _, err := s.propose(ctx, state.DeleteReservation{Name: request.GetName()}, id); err != nil {
			return nil, err
		}
	}
	return &pb.DeleteReservationResponse{}, nil
}

// ListReservations returns all reservations; where the policy hides them, those that the
// caller may use.
func (s *Controller) ListReservations(ctx context.Context, _ *pb.ListReservationsRequest) (*pb.ListReservationsResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	view, now := s.cluster.View(), time.Now().UnixMilli()
	hides := s.sightOf(from, view).hides("reservations")
	answer := &pb.ListReservationsResponse{}
	for r := range view.Reservations() {
		if hides && !view.UsesReservation(r, from.name()) {
			continue
		}
		answer.Reservations = append(answer.Reservations, view.ReservationMessage(r, now))
	}
	return answer, nil
}

// reservationsRequest is who asks to change reservations: administrators and operators
// may.
func (s *Controller) reservationsRequest(ctx context.Context, requested string) (*caller, state.RequestID, error) {
	from, id, err := s.confirmedRequest(ctx, requested)
	if err != nil {
		return nil, id, err
	}
	if from.owner != nil || s.levelOf(from, s.cluster.View()) < state.Operator {
		return nil, id, status.Error(codes.PermissionDenied, "Access/permission denied: only administrators and operators make, change and delete reservations")
	}
	return from, id, nil
}

// reservedNodes are the nodes that a reservation names; ALL are those of its partition.
func reservedNodes(view *state.View, wanted *pb.Reservation) ([]string, error) {
	partition, known := view.Policy().Partition(wanted.GetPartition())
	if wanted.GetPartition() != "" && !known {
		return nil, invalid("Invalid partition name specified: there is no partition %.64q", wanted.GetPartition())
	}
	if wanted.GetNodes() != "ALL" {
		if wanted.GetNodes() == "" {
			return nil, nil
		}
		names, err := spec.ParseHostList(wanted.GetNodes())
		if err != nil {
			return nil, invalid("Invalid node name specified: %v", err)
		}
		return names, nil
	}
	names := allNames(view)
	if known {
		names = slices.DeleteFunc(names, func(name string) bool { return !partition.Has(name) })
	}
	return names, nil
}

// chooseReserved chooses the nodes of a reservation that asks for a number.
func chooseReserved(view *state.View, r *state.Reservation, request *pb.CreateReservationRequest) ([]string, error) {
	if request.GetNodeCount() > bounds.MaxNodesPerCommand {
		return nil, invalid("%d nodes are too many: at most %d", request.GetNodeCount(), bounds.MaxNodesPerCommand)
	}
	wanted := &state.NodesWanted{Count: int(request.GetNodeCount()), GPUs: request.GetGpuCount(), Model: request.GetGpuModel()}
	if err := wanted.WithFeatures(request.GetFeatures()); err != nil {
		return nil, invalid("Invalid feature specification: %v", err)
	}
	nodes, refused := view.ReservableNodes(r, wanted)
	if refused != nil {
		return nil, refusal(refused)
	}
	return nodes, nil
}

// checkReservedUsers refuses names that are no users here: they are most likely misspelled.
func checkReservedUsers(names []string) error {
	for _, name := range names {
		if _, err := lookupName(name); err != nil {
			return invalid("Invalid user id: %.64s: %v", name, err)
		}
	}
	return nil
}

// reservationNamed is a reservation as it is now; nil when there is none.
func (s *Controller) reservationNamed(name string) *pb.Reservation {
	view := s.cluster.View()
	r, known := view.Reservation(name)
	if !known {
		return nil
	}
	return view.ReservationMessage(r, time.Now().UnixMilli())
}

// reservationOf is the one that somebody made at a time of the log: what a request that
// is repeated made at first.
func (s *Controller) reservationOf(user string, atMS int64) *pb.Reservation {
	view := s.cluster.View()
	for r := range view.Reservations() {
		if r.By == user && r.AtMS == atMS {
			return view.ReservationMessage(r, time.Now().UnixMilli())
		}
	}
	return nil
}

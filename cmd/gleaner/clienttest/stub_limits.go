package clienttest

import (
	"cmp"
	"context"

	"google.golang.org/grpc"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *StubController) ListLicenses(context.Context, *pb.ListLicensesRequest) (*pb.ListLicensesResponse, error) {
	return &pb.ListLicensesResponse{Licenses: []*pb.LicenseUse{{Name: "ansys", Total: 100, Used: 2}, {Name: "fluent", Total: 30}, {Name: "gone", Used: 1}}}, nil
}

// ListLimits answers a small tree in which each kind of limit occurs once.
func (s *StubController) ListLimits(request *pb.ListLimitsRequest, stream grpc.ServerStreamingServer[pb.ListLimitsResponse]) error {
	use := func(jobs, cpus uint64) *pb.LimitUse {
		return &pb.LimitUse{
			Jobs: jobs, Submitted: 2 * jobs, WallMinutes: 90 * jobs, Tres: []uint64{cpus, cpus, 0, cpus << 30, jobs},
			TresMinutes: []uint64{90 * cpus, 90 * cpus, 0, 90 * cpus << 10, 90 * jobs}, TresRunMinutes: []uint64{10 * cpus, 10 * cpus, 0, 10 * cpus << 10, 10 * jobs},
		}
	}
	limit := func(kind pb.LimitKind, tres string, value uint64) *pb.Limit {
		return &pb.Limit{Kind: kind, Tres: tres, Value: value}
	}
	if err := stream.Send(&pb.ListLimitsResponse{
		Cluster: "c1", Tres: []string{"billing", "cpu", "gres/gpu", "mem", "node"}, Enforced: len(request.GetUsers()) == 0,
		Users: []*pb.AccountUser{{Name: "ada", DefaultAccount: "physics", Level: pb.AdminLevel_ADMIN_LEVEL_OPERATOR}, {Name: "new\x1b[2J"}},
		Associations: []*pb.AssociationUse{
			{Association: &pb.Association{Id: 1, Account: "root", Shares: 1}, Use: use(3, 8)},
			{Association: &pb.Association{Id: 2, Account: "physics", ParentAccount: "root", Shares: 60, Limits: []*pb.Limit{
				limit(pb.LimitKind_LIMIT_KIND_GROUP_JOBS, "", 10), limit(pb.LimitKind_LIMIT_KIND_GROUP_SUBMIT, "", 40),
				limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES, "gres/gpu", 8), limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES, "mem", 64<<30),
				limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, "cpu", 100000), limit(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_JOB, "node", 2),
			}}, Use: use(2, 6)},
		},
	}); err != nil {
		return err
	}
	return stream.Send(&pb.ListLimitsResponse{
		Associations: []*pb.AssociationUse{
			{Association: &pb.Association{Id: 3, Account: "physics", User: "ada", ParentAccount: "physics", ShareParent: true, Limits: []*pb.Limit{
				limit(pb.LimitKind_LIMIT_KIND_MAX_JOBS, "", 2), limit(pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES, "", 60),
			}}, Use: use(2, 6)},
			// Two of those whose shares are shown.
			{Association: &pb.Association{Id: 4, Account: "A", ParentAccount: "root", Shares: 40, Limits: []*pb.Limit{
				limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, "cpu", 600), limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES_MINUTES, "gres/gpu", 60),
			}}, Use: use(1, 2)},
			{Association: &pb.Association{Id: 5, Account: "B", User: "ada", ParentAccount: "B", Shares: 1}, Use: use(1, 2)},
		},
		Qos: []*pb.QosUse{{
			Qos: &pb.Qos{Name: "high", Priority: 100, Limits: []*pb.Limit{
				limit(pb.LimitKind_LIMIT_KIND_MAX_JOBS, "", 4), limit(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER, "gres/gpu", 2),
				limit(pb.LimitKind_LIMIT_KIND_MAX_JOBS_PER_ACCOUNT, "", 6), limit(pb.LimitKind_LIMIT_KIND_MIN_TRES_PER_JOB, "mem", 1<<30),
			}},
			Use:    use(1, 2),
			Within: []*pb.UseWithin{{Account: "physics", Use: use(1, 2)}, {Uid: 1001, User: "ada", Use: use(1, 2)}},
		}},
	})
}

// ListReservations answers two reservations.
func (s *StubController) ListReservations(context.Context, *pb.ListReservationsRequest) (*pb.ListReservationsResponse, error) {
	hour := int64(3_600_000)
	return &pb.ListReservationsResponse{Reservations: []*pb.Reservation{
		{Name: "course", StartMs: 1_700_000_000_000, EndMs: 1_700_000_000_000 + 2*hour, Nodes: "n[1-2]", Users: []string{"ada", "bob"}, Repeat: pb.ReservationRepeat_RESERVATION_REPEAT_WEEKLY, NodeCount: 2, CpuCount: 16, GpuCount: 4, Active: true},
		{Name: "fans", StartMs: 1_700_000_000_000 + 24*hour, EndMs: 1_700_000_000_000 + 30*hour, Nodes: "n3", Partition: "gpu", Accounts: []string{"physics"}, NotAccounts: true, Flags: []pb.ReservationFlag{pb.ReservationFlag_RESERVATION_FLAG_MAINT}, NodeCount: 1, CpuCount: 8},
	}}, nil
}

// CreateReservation keeps the request.
func (s *StubController) CreateReservation(_ context.Context, request *pb.CreateReservationRequest) (*pb.CreateReservationResponse, error) {
	return &pb.CreateReservationResponse{Reservation: &pb.Reservation{Name: cmp.Or(request.GetReservation().GetName(), "ada_1")}}, nil
}

// UpdateReservation accepts everything.
func (s *StubController) UpdateReservation(context.Context, *pb.UpdateReservationRequest) (*pb.UpdateReservationResponse, error) {
	return &pb.UpdateReservationResponse{}, nil
}

// DeleteReservation accepts everything.
func (s *StubController) DeleteReservation(context.Context, *pb.DeleteReservationRequest) (*pb.DeleteReservationResponse, error) {
	return &pb.DeleteReservationResponse{}, nil
}

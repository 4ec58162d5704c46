package clienttest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// stubAccounts are two labs below science, three users, two QOS.
func stubAccounts() *pb.ListAccountsResponse {
	limit := func(kind pb.LimitKind, tres string, value uint64) *pb.Limit {
		return &pb.Limit{Kind: kind, Tres: tres, Value: value}
	}
	normal := []string{"normal"}
	association := func(id uint32, depth uint32, parent, account, user string, shares uint32) *pb.Association {
		return &pb.Association{Id: id, Depth: depth, ParentAccount: parent, Account: account, User: user, Shares: shares, AllowedQos: normal, EffectiveDefaultQos: "normal"}
	}
	physics := association(3, 2, "science", "physics", "", 30)
	physics.Limits = []*pb.Limit{
		limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES, "cpu", 64), limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES, "gres/gpu", 8), limit(pb.LimitKind_LIMIT_KIND_GROUP_TRES, "mem", 512<<30),
		limit(pb.LimitKind_LIMIT_KIND_MAX_JOBS, "", 4), limit(pb.LimitKind_LIMIT_KIND_MAX_WALL_MINUTES, "", 2880),
	}
	physics.Qos, physics.AllowedQos = []string{"high", "normal"}, []string{"high", "normal"}
	adam := association(5, 3, "physics", "physics", "adam", 10)
	adam.AllowedQos, adam.EffectiveDefaultQos = physics.AllowedQos, "high"
	brian := association(6, 3, "physics", "physics", "brian", 1)
	brian.ShareParent, brian.AllowedQos, brian.Partition = true, physics.AllowedQos, "gpu"
	return &pb.ListAccountsResponse{
		Cluster: "lab", Tres: []string{"billing", "cpu", "gres/gpu", "gres/gpu:a100", "license/matlab", "mem", "node"},
		Accounts: []*pb.Account{
			{Name: "chemistry", Parent: "science", Description: "chemistry", Organization: "science"},
			{Name: "physics", Parent: "science", Description: "Physics with a name that is long", Organization: "science", Coordinators: []string{"adam"}},
			{Name: "root", Description: "default root account", Organization: "root"},
			{Name: "science", Parent: "root", Description: "science", Organization: "science"},
		},
		Users: []*pb.AccountUser{
			{Name: "adam", DefaultAccount: "physics", Level: pb.AdminLevel_ADMIN_LEVEL_OPERATOR}, {Name: "brian", DefaultAccount: "chemistry"},
		},
		Associations: []*pb.Association{
			association(1, 0, "", "root", "", 1), association(2, 1, "root", "science", "", 50),
			association(4, 2, "science", "chemistry", "", 20), association(7, 3, "chemistry", "chemistry", "brian", 1),
			physics, adam, brian,
		},
		Qos: []*pb.Qos{
			{
				Name: "high", Description: "high", Priority: 100, Preempts: normal, PreemptMode: "requeue", GraceTimeS: 60,
				ExemptTimeS: proto.Uint32(300), UsageFactorPpm: proto.Uint32(1_500_000), Flags: []string{"DenyOnLimit"},
				Limits: []*pb.Limit{limit(pb.LimitKind_LIMIT_KIND_MAX_TRES_PER_USER, "gres/gpu", 4), limit(pb.LimitKind_LIMIT_KIND_MAX_JOBS, "", 2)},
			},
			{Name: "normal", Description: "Normal QOS default"},
		},
	}
}

func (s *StubController) ListAccounts(_ *pb.ListAccountsRequest, stream grpc.ServerStreamingServer[pb.ListAccountsResponse]) error {
	return stream.Send(stubAccounts())
}

func (s *StubController) ChangeAccounts(_ context.Context, request *pb.ChangeAccountsRequest) (*pb.ChangeAccountsResponse, error) {
	s.wrote(request)
	for _, c := range request.Changes {
		if c.Account == "science" && c.Action == pb.ChangeAction_CHANGE_ACTION_DELETE {
			return nil, status.Error(codes.FailedPrecondition, "account science has accounts below it (chemistry, physics): delete or move them first")
		}
	}
	return &pb.ChangeAccountsResponse{Notes: []string{"a note of the controller's"}}, nil
}

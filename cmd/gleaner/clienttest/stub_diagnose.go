package clienttest

import (
	"context"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Diagnose answers figures each of which is another number.
func (s *StubController) Diagnose(context.Context, *pb.DiagnoseRequest) (*pb.DiagnoseResponse, error) {
	return &pb.DiagnoseResponse{
		NowMs: StubNow.UnixMilli(), SinceMs: StubNow.UnixMilli() - 600_000, RequestsNow: 3, NodesConnected: 4, OrdersWaiting: 5, RunsWaiting: 6,
		Submitted: 7, Started: 8, Completed: 9, Cancelled: 10, Failed: 11, Pending: 12, Running: 13,
		Passes: 20, LastUs: 21, MaxUs: 22, TotalUs: 460, LastMs: StubNow.UnixMilli() - 5000, Depth: 24, Depths: 500, Backfilled: 26, BackfilledEver: 27,
		Methods: []*pb.RequestCount{{Name: "ListRuns\x1b[2J", Count: 2, TotalUs: 90}, {Name: "Submit", Count: 7, TotalUs: 70}},
		Users:   []*pb.RequestCount{{Uid: 0, Count: 8, TotalUs: 100}, {Uid: 4_000_000_001, Count: 1, TotalUs: 60}, {Uid: 4_294_967_295, Count: 30, TotalUs: 61}},
	}, nil
}

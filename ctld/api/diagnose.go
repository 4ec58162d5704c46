package api

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gleaner-hpc/gleaner/ctld/tally"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Diagnose tells what this controller did since it started, or since it was reset.
func (s *Controller) Diagnose(ctx context.Context, request *pb.DiagnoseRequest) (*pb.DiagnoseResponse, error) {
	from, err := s.reader(ctx)
	if err != nil {
		return nil, err
	}
	if request.GetReset_() && !s.seesAll(from) {
		return nil, status.Error(codes.PermissionDenied, "Access/permission denied: only operators and administrators may reset the counts")
	}
	view, now := s.cluster.View(), time.Now()
	may := s.sightOf(from, view)
	work, requests, census := s.loops.Work().Counts(), s.tally.Counts(), view.CensusOf(may.sees)
	answer := &pb.DiagnoseResponse{
		NowMs: now.UnixMilli(), SinceMs: work.Since.UnixMilli(), RequestsNow: uint32(max(requests.Now, 0)),
		Submitted: work.Jobs.Submitted, Started: work.Jobs.Started, Completed: work.Jobs.Completed, Cancelled: work.Jobs.Cancelled, Failed: work.Jobs.Failed,
		Pending: census.Waiting, Running: census.Running, Backfilled: work.Jobs.Backfilled, BackfilledEver: work.Backfilled,
		Methods: countsOf(requests.ByMethod),
	}
	fillPasses(answer, &work.Passes)
	for _, link := range s.loops.Sessions().All() {
		answer.NodesConnected++
		answer.OrdersWaiting += uint32(link.Waiting())
	}
	runs, _, _ := view.HistorySize()
	answer.RunsWaiting = uint32(runs)
	if !may.hides("usage") && !may.hides("users") {
		answer.Users = usersOf(&requests)
	}
	if request.GetReset_() {
		s.loops.Work().Reset(now)
		s.tally.Reset()
	}
	return answer, nil
}

func fillPasses(answer *pb.DiagnoseResponse, p *tally.Passes) {
	answer.Passes, answer.Depth, answer.Depths = p.Count, p.Depth, p.Depths
	answer.LastUs, answer.MaxUs, answer.TotalUs = microseconds(p.Last), microseconds(p.Max), microseconds(p.Took)
	if p.Count > 0 {
		answer.LastMs = p.LastAt.UnixMilli()
	}
}

func microseconds(d time.Duration) uint64 { return uint64(max(d.Microseconds(), 0)) }

func countsOf(counts map[string]tally.Count) []*pb.RequestCount {
	var all []*pb.RequestCount
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, &pb.RequestCount{Name: name, Count: counts[name].Times, TotalUs: microseconds(counts[name].Took)})
	}
	return all
}

// usersOf has those beyond the bound as one without a name, and with a number that is
// nobody's.
func usersOf(requests *tally.RequestCounts) []*pb.RequestCount {
	var all []*pb.RequestCount
	for uid, count := range requests.ByUser {
		all = append(all, &pb.RequestCount{Uid: uid, Count: count.Times, TotalUs: microseconds(count.Took)})
	}
	slices.SortFunc(all, func(a, b *pb.RequestCount) int { return cmp.Compare(a.Uid, b.Uid) })
	if others := requests.Others; others.Times > 0 {
		all = append(all, &pb.RequestCount{Uid: math.MaxUint32, Count: others.Times, TotalUs: microseconds(others.Took)})
	}
	return all
}

package clienttest

import (
	"math"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (s *StubController) ListPriorities(request *pb.ListPrioritiesRequest, stream grpc.ServerStreamingServer[pb.ListPrioritiesResponse]) error {
	for _, job := range StubPriorities() {
		named := len(request.Ids) == 0 || slices.ContainsFunc(request.Ids, func(id *pb.JobId) bool { return id.Job == job.Id.Job })
		if !named || len(request.Partitions) > 0 && !slices.Contains(request.Partitions, job.Partition) {
			continue
		}
		if err := stream.Send(&pb.ListPrioritiesResponse{Jobs: []*pb.JobPriority{job}}); err != nil {
			return err
		}
	}
	return nil
}

// stubWeights are those of the configuration example of
// priority_multifactor.html, and one of a TRES.
func stubWeights() *pb.PriorityPolicy {
	return &pb.PriorityPolicy{
		WeightAge: 1000, WeightFairShare: 10000, WeightJobSize: 1000, WeightPartition: 1000, WeightTres: map[string]uint32{"gres/gpu": 3000},
	}
}

// StubPriorities are the priorities of jobs that wait.
func StubPriorities() []*pb.JobPriority {
	factor := func(factor, weight float64) *pb.PriorityFactor {
		return &pb.PriorityFactor{Normalized: factor, Weighted: factor * weight}
	}
	one := func(job uint32, user, partition string, age, fair, size, weighs, gpus float64, nice int32) *pb.JobPriority {
		sum := 1000*age + 10000*fair + 1000*size + 1000*weighs + 3000*gpus - float64(nice)
		return &pb.JobPriority{
			Id: &pb.JobId{Job: job}, User: user, Uid: 1000, Account: "physics", Qos: "normal", Partition: partition, Priority: uint32(sum), Nice: nice,
			Age: factor(age, 1000), Association: factor(0, 0), FairShare: factor(fair, 10000), JobSize: factor(size, 1000),
			PartitionFactor: factor(weighs, 1000), QosFactor: factor(0, 0), Tres: map[string]*pb.PriorityFactor{"gres/gpu": factor(gpus, 3000)},
		}
	}
	return []*pb.JobPriority{
		one(12, "ada", "main", 0.5, 0.75, 0.25, 1, 0.125, 0),
		one(12, "ada", "gpu", 0.5, 0.75, 0.25, 0.5, 0.25, 0),
		one(13, "grace", "main", 0, 0.51663, 1, 1, 0, 100),
	}
}

func (s *StubController) ListShares(_ *pb.ListSharesRequest, stream grpc.ServerStreamingServer[pb.ListSharesResponse]) error {
	for _, share := range StubShares() {
		if err := stream.Send(&pb.ListSharesResponse{Shares: []*pb.Share{share}}); err != nil {
			return err
		}
	}
	return nil
}

// StubShares is the tree of the example of classic_fair_share.html, half of it.
func StubShares() []*pb.Share {
	return []*pb.Share{
		{Account: "root", RawShares: 1, RawUsage: 70.5, NormUsage: 1, EffectiveUsage: 1},
		{Account: "root", User: "root", Depth: 1, RawShares: 1, FairShare: proto.Float64(1), LevelFs: proto.Float64(math.Inf(1))},
		{Account: "A", Parent: "root", Depth: 1, RawShares: 40, NormShares: 0.4, RawUsage: 45, NormUsage: 0.638298, EffectiveUsage: 0.638298, LevelFs: proto.Float64(0.626667)},
		{Account: "B", Parent: "A", Depth: 2, ShareParent: true, RawUsage: 20, NormUsage: 0.283688, EffectiveUsage: 0},
		{Account: "B", User: "ada", Depth: 3, RawShares: 1, NormShares: 0.5, RawUsage: 20, NormUsage: 0.283688, EffectiveUsage: 1, FairShare: proto.Float64(0.333333), LevelFs: proto.Float64(0.5)},
		{Account: "B", User: "grace", Partition: "gpu", Depth: 3, RawShares: 1, NormShares: 0.5, FairShare: proto.Float64(0.666667), LevelFs: proto.Float64(math.Inf(1))},
	}
}

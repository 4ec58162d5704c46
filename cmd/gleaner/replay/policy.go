// Package replay shows what replays of a workload found (package sched/sim): as tables,
// as JSON, as a picture; and makes what is replayed of the policies of clusters.
//
// Contract: it asks no controller, reads no file and writes only to the writers that it
// is given. What came from a trace is printed without control characters.
package replay

import (
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/sim"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Policy is what a replay knows of a policy: its scheduler, and of its priority the
// weights of age and job size.
func Policy(name string, policy *pb.Policy) sim.Policy {
	s, p := policy.GetScheduler(), policy.GetPriority()
	return sim.Policy{
		Name: name, Lending: usualLending(),
		Backfill: sched.BackfillPolicy{
			On: s.GetType() == "backfill", PartJobs: s.GetBfJobPartCountReserve(), MaxJobs: s.GetBfMaxJobTest(),
			ArrayTasks: s.GetBfMaxJobArrayResv(), ShortestFirst: s.GetBfShortestFirst(), FirstByLimits: s.GetPredict() == "recent-two" || s.GetPredict() == "learned",
		},
		Predict: map[string]sim.Prediction{"recent-two": sim.LastTwo, "learned": sim.Learned}[s.GetPredict()],
		Priority: sched.PriorityPolicy{
			WeightAge: p.GetWeightAge(), WeightJobSize: p.GetWeightJobSize(), WeightPartition: p.GetWeightPartition(), MaxAgeS: p.GetMaxAgeS(),
			FavorSmall: p.GetFavorSmall(), SmallRelativeToTime: p.GetSmallRelativeToTime(),
		},
	}
}

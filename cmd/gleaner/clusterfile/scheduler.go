package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// schedulerFile has SchedulerType and the SchedulerParameters of slurm.conf(5) that
// there are.
type schedulerFile struct {
	Type                  string  `toml:"type"`
	BfJobPartCountReserve *uint32 `toml:"bf_job_part_count_reserve"`
	BfMaxJobTest          *uint32 `toml:"bf_max_job_test"`
	BfMaxJobArrayResv     *uint32 `toml:"bf_max_job_array_resv"`
	BfShortestFirst       bool    `toml:"bf_shortest_first"`
	EnableUserTop         bool    `toml:"enable_user_top"`
	ReplayRuns            *uint32 `toml:"replay_runs"`
	ReplayAge             any     `toml:"replay_age"`
	Predict               string  `toml:"predict"`
}

// schedulerTypes are the words of the file; those of Slurm mean the same.
var schedulerTypes = map[string]string{
	"": "backfill", "backfill": "backfill", "builtin": "builtin", "sched/backfill": "backfill", "sched/builtin": "builtin",
}

// predictions are the words for what plans go by.
var predictions = []string{"none", "recent-two", "learned"}

func (s *schedulerFile) message() (*pb.SchedulerPolicy, error) {
	kind, known := schedulerTypes[strings.ToLower(s.Type)]
	if !known {
		return nil, fmt.Errorf("type: %q is none of builtin and backfill", s.Type)
	}
	predict := cmp.Or(strings.ToLower(s.Predict), "none")
	if !slices.Contains(predictions, predict) {
		return nil, fmt.Errorf("predict: %q is none of %s", s.Predict, strings.Join(predictions, ", "))
	}
	number := func(given *uint32, usual uint32) uint32 {
		if given == nil {
			return usual
		}
		return *given
	}
	age, err := spanSeconds(s.ReplayAge, 28*24*3600)
	if err != nil {
		return nil, fmt.Errorf("replay_age: %w", err)
	}
	return &pb.SchedulerPolicy{
		ReplayRuns: number(s.ReplayRuns, 50_000), ReplayAgeS: age,
		Type: kind, BfJobPartCountReserve: number(s.BfJobPartCountReserve, 10), BfMaxJobTest: number(s.BfMaxJobTest, 500),
		BfMaxJobArrayResv: number(s.BfMaxJobArrayResv, 20), BfShortestFirst: s.BfShortestFirst, Predict: predict, EnableUserTop: s.EnableUserTop,
	}, nil
}

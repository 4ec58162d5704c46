package clusterfile

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// boundsFile is what cluster.toml says of what one user may have and ask for.
type boundsFile struct {
	MaxSubmitJobsPerUser *uint32 `toml:"max_submit_jobs_per_user"`
	// Words of SlurmctldParameters in slurm.conf(5).
	RateEnable  *bool   `toml:"rl_enable"`
	RateBucket  *uint32 `toml:"rl_bucket_size"`
	RateRefill  *uint32 `toml:"rl_refill_rate"`
	RatePeriod  *uint32 `toml:"rl_refill_period"`
	RateTable   *uint32 `toml:"rl_table_size"`
	RateLogFreq *uint32 `toml:"rl_log_freq"`
}

func (f *boundsFile) fillBounds(policy *pb.Policy) error {
	policy.RateLimit = &pb.RateLimit{Off: f.RateEnable != nil && !*f.RateEnable}
	limit := policy.RateLimit
	for _, figure := range []struct {
		key    string
		given  *uint32
		normal uint32
		field  *uint32
	}{
		{"max_submit_jobs_per_user", f.MaxSubmitJobsPerUser, 10_000, &policy.MaxSubmitJobsPerUser},
		{"rl_bucket_size", f.RateBucket, 500, &limit.BucketSize}, {"rl_refill_rate", f.RateRefill, 100, &limit.RefillRate},
		{"rl_refill_period", f.RatePeriod, 1, &limit.RefillPeriodS}, {"rl_table_size", f.RateTable, 8192, &limit.TableSize},
		{"rl_log_freq", f.RateLogFreq, 10, &limit.LogFreqS},
	} {
		switch {
		case figure.given == nil:
			*figure.field = figure.normal
		case *figure.given == 0:
			return fmt.Errorf("%s = 0 is not sensible: use 1 or more, or leave the key out", figure.key)
		default:
			*figure.field = *figure.given
		}
	}
	return nil
}

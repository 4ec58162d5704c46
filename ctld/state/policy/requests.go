package policy

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file holds what the policy allows one user: how many jobs, and how many
// requests. Both hold without accounts, and in addition to limits of accounts
// and QOS.

// DefaultMaxSubmitJobsPerUser is Slurm's default for the whole cluster
// (MaxJobCount): an array counts each of its tasks. A hundred users with that
// many jobs fit into the default of max_job_count.
const DefaultMaxSubmitJobsPerUser = 10_000

// What one user may request when the policy does not say: a loop that calls
// gsubmit as fast as it can stays below the rate, and the excess is a few
// hundredths of what a controller can answer.
const (
	DefaultRateBucket   = 500
	DefaultRateRefill   = 100
	DefaultRatePeriodS  = 1
	DefaultRateTable    = 8192
	DefaultRateLogFreqS = 10
)

// RateLimit bounds the requests of each user by a token bucket: the words of
// SlurmctldParameters (slurm.conf(5), rl_enable and those after it). 0 means
// the default. Decided in ctld/api, on each controller; nothing of it is in the
// log.
type RateLimit struct {
	Off      bool   `cbor:"1,keyasint,omitempty"`
	Bucket   uint32 `cbor:"2,keyasint,omitempty"` // requests at once
	Refill   uint32 `cbor:"3,keyasint,omitempty"` // requests more, each period
	PeriodS  uint32 `cbor:"4,keyasint,omitempty"`
	Table    uint32 `cbor:"5,keyasint,omitempty"` // users that are told apart at a time
	LogFreqS uint32 `cbor:"6,keyasint,omitempty"` // a user's refusals are one line in this time
}

// InForce is the limit with its defaults filled in.
func (r RateLimit) InForce() RateLimit {
	return RateLimit{
		Off: r.Off, Bucket: cmp.Or(r.Bucket, DefaultRateBucket), Refill: cmp.Or(r.Refill, DefaultRateRefill),
		PeriodS: cmp.Or(r.PeriodS, DefaultRatePeriodS), Table: cmp.Or(r.Table, DefaultRateTable), LogFreqS: cmp.Or(r.LogFreqS, DefaultRateLogFreqS),
	}
}

// String is the limit as SlurmctldParameters has it.
func (r RateLimit) String() string {
	var words []string
	for _, setting := range r.settings() {
		switch {
		case setting.key != "rl_enable":
			words = append(words, setting.key+"="+setting.value)
		case !r.Off:
			words = append(words, setting.key)
		}
	}
	return strings.Join(words, ",")
}

func (r RateLimit) settings() []setting {
	r = r.InForce()
	return []setting{
		{"rl_enable", fmt.Sprint(!r.Off)},
		{"rl_bucket_size", fmt.Sprint(r.Bucket)},
		{"rl_refill_rate", fmt.Sprint(r.Refill)},
		{"rl_refill_period", fmt.Sprint(r.PeriodS)},
		{"rl_table_size", fmt.Sprint(r.Table)},
		{"rl_log_freq", fmt.Sprint(r.LogFreqS)},
	}
}

// normalize replaces defaults by zeros, so that two limits that mean the same
// are equal.
func (r *RateLimit) normalize() {
	for _, figure := range []struct {
		value *uint32
		usual uint32
	}{{&r.Bucket, DefaultRateBucket}, {&r.Refill, DefaultRateRefill}, {&r.PeriodS, DefaultRatePeriodS}, {&r.Table, DefaultRateTable}, {&r.LogFreqS, DefaultRateLogFreqS}} {
		if *figure.value == figure.usual {
			*figure.value = 0
		}
	}
}

// MaxSubmitJobs is how many jobs one user may have that are not over.
func (p *Policy) MaxSubmitJobs() uint32 {
	return cmp.Or(p.MaxSubmitJobsPerUser, DefaultMaxSubmitJobsPerUser)
}

// normalizeBounds replaces the defaults of this file by zeros.
func (p *Policy) normalizeBounds() {
	p.Rate.normalize()
	if p.MaxSubmitJobsPerUser == DefaultMaxSubmitJobsPerUser {
		p.MaxSubmitJobsPerUser = 0
	}
}

func rateFromMessage(message *pb.RateLimit) RateLimit {
	return RateLimit{
		Off: message.GetOff(), Bucket: message.GetBucketSize(), Refill: message.GetRefillRate(),
		PeriodS: message.GetRefillPeriodS(), Table: message.GetTableSize(), LogFreqS: message.GetLogFreqS(),
	}
}

func (r RateLimit) message() *pb.RateLimit {
	r = r.InForce()
	return &pb.RateLimit{
		Off: r.Off, BucketSize: r.Bucket, RefillRate: r.Refill, RefillPeriodS: r.PeriodS, TableSize: r.Table, LogFreqS: r.LogFreqS,
	}
}

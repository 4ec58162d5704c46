package sched

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// benchmarkLimits is a full cluster whose jobs count for a thousand accounts
// with a user each, half of which have reached a limit, and two QOS.
func benchmarkLimits(jobs int) Snapshot {
	s := benchmarkCluster(1000, jobs, 20)
	s.NowMS = 1_700_000_000_000
	s.TRES = []string{TRESBilling, TRESCPU, TRESGPU, TRESModel + "a100", TRESMemory, TRESNode}
	s.Accounting.EnforceLimits = true
	none := NoLimits()
	s.Associations = []Association{{Parent: -1, Account: "root", Limits: none}}
	for i := range 1000 {
		account, user := none, none
		account.GroupTRES = Amounts{NoLimit, NoLimit, int64(4 + i%2*1000), NoLimit, NoLimit, NoLimit}
		user.MaxJobs = 50
		at := len(s.Associations)
		s.Associations = append(s.Associations,
			Association{Parent: 0, Account: fmt.Sprintf("a%d", i), Limits: account},
			Association{Parent: at, Account: fmt.Sprintf("a%d", i), User: fmt.Sprintf("u%d", i), Limits: user})
	}
	limited := none
	limited.MaxTRESPerUser = Amounts{NoLimit, 500, NoLimit, NoLimit, NoLimit, NoLimit}
	s.QOS = []QOS{{Name: "limited", UsageFactorPPM: 1_000_000, Limits: limited}, {Name: "normal", UsageFactorPPM: 1_000_000, Limits: none}}
	s.Partitions[0].QOS = 1
	for i := range s.Waiting {
		job := &s.Waiting[i]
		user := i % 1000
		job.Association, job.UID, job.QOS = int32(2+2*user), uint32(user), int32(i%2)
	}
	plan, _ := Schedule(s, Memo{})
	started := make(map[JobID]bool)
	for _, start := range plan.Starts {
		job := s.Waiting[start.Job-1]
		place.Take(s.Nodes, start.Placement, false)
		started[start.Job] = true
		s.Running = append(s.Running, Running{
			ID: job.ID, StartMS: s.NowMS, TimeLimitS: s.Shapes[job.Shape].TimeLimitS, Placement: start.Placement,
			Association: job.Association, QOS: job.QOS, UID: job.UID,
		})
	}
	var waiting []Job
	for _, job := range s.Waiting {
		if !started[job.ID] {
			waiting = append(waiting, job)
		}
	}
	s.Waiting = waiting
	return s
}

// BenchmarkFullWithLimits is BenchmarkFull with all that limits it, compared to
// the same without.
func BenchmarkFullWithLimits(b *testing.B) {
	for _, jobs := range []int{10000, 100000} {
		s := benchmarkLimits(jobs)
		for _, enforced := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=1000/accounts=1000/jobs=%d/enforced=%v", jobs, enforced), func(b *testing.B) {
				s.Accounting.EnforceLimits = enforced
				plan, memo := Schedule(s, Memo{})
				limited := 0
				for _, r := range plan.Reasons {
					if r.Code == ReasonLimit {
						limited++
					}
				}
				for b.Loop() {
					_, memo = Schedule(s, memo)
				}
				b.ReportMetric(float64(limited), "limited/op")
				b.ReportMetric(float64(len(s.Running)), "running/op")
			})
		}
	}
}

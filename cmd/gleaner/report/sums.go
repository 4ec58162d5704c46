package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// key is what is added up together.
type key struct {
	cluster              string
	account, user, owner string
	tres                 string
}

// sums are amounts times milliseconds.
type sums map[key]uint64

// add adds what a run used between two times.
func (s sums) add(run *pb.PastRun, cluster string, sinceMS, untilMS int64) {
	job := run.GetJob()
	ms := usedMS(run, sinceMS, untilMS)
	if ms == 0 {
		return
	}
	account, user := job.GetSpec().GetAccount(), job.GetOwner().GetUser()
	total, byModel := show.GPUCounts(job)
	for tres, count := range map[string]uint64{"cpu": uint64(job.GetCpus()), "mem": show.MemoryBytes(job) >> 20, "node": uint64(job.GetNodes()), "gres/gpu": uint64(total)} {
		s[key{cluster, account, user, "", tres}] += count * ms
	}
	for model, count := range byModel {
		if model != "" {
			s[key{cluster, account, user, "", "gres/gpu:" + model}] += uint64(count) * ms
		}
	}
	for _, b := range run.GetBorrowed() {
		s[key{cluster, account, user, b.GetOwner(), "cpu"}] += uint64(b.GetCpus()) * ms
		s[key{cluster, account, user, b.GetOwner(), "gres/gpu"}] += uint64(b.GetGpus()) * ms
		if b.GetModel() != "" {
			s[key{cluster, account, user, b.GetOwner(), "gres/gpu:" + b.GetModel()}] += uint64(b.GetGpus()) * ms
		}
	}
}

// runFields is what add needs of a run.
var runFields = []string{"live", "ran_ms", "borrowed", "job.id", "job.owner.user", "job.spec", "job.start_ms", "job.end_ms", "job.cpus", "job.nodes", "job.allocation"}

// addSum adds what the controller has added up already.
func (s sums) addSum(sum *pb.RunSum, cluster string) {
	amounts := map[string]uint64{"cpu": sum.GetCpuMs(), "mem": sum.GetMemoryMibMs(), "node": sum.GetNodeMs(), "gres/gpu": sum.GetGpuMs()}
	if sum.GetModel() != "" {
		amounts["gres/gpu:"+sum.GetModel()] = sum.GetGpuMs()
	}
	for tres, amount := range amounts {
		s[key{cluster, sum.GetAccount(), sum.GetUser(), "", tres}] += amount
	}
}

// usedMS is how long a run ran between two times. Of one that was suspended it is not
// known when: the time is taken off in proportion.
func usedMS(run *pb.PastRun, sinceMS, untilMS int64) uint64 {
	job := run.GetJob()
	start, end := job.GetStartMs(), job.GetEndMs()
	if run.GetLive() {
		end = untilMS
	}
	if start == 0 || end <= start {
		return 0
	}
	inside := min(end, untilMS) - max(start, sinceMS)
	if inside <= 0 {
		return 0
	}
	if !run.GetLive() && run.GetRanMs() < end-start {
		inside = int64(float64(inside) * float64(max(run.GetRanMs(), 0)) / float64(end-start))
	}
	return uint64(inside)
}

// by adds up again, with fewer distinctions.
func (s sums) by(of func(key) (key, bool)) sums {
	out := sums{}
	for k, amount := range s {
		if next, wanted := of(k); wanted && amount > 0 {
			out[next] += amount
		}
	}
	return out
}

// sorted are the keys in an order.
func (s sums) sorted(less func(a, b key) int) []key {
	return slices.SortedFunc(maps.Keys(s), func(a, b key) int { return cmp.Or(less(a, b), compareTRES(a.tres, b.tres)) })
}

// compareTRES orders cpu, mem, node, GPUs.
func compareTRES(a, b string) int {
	return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
}

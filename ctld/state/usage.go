package state

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/billing"
	"github.com/gleaner-hpc/gleaner/sched/fairshare"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file computes and adds up what runs have used: a run's usage is added to
// its association and to its QOS when it ends, however it ends, and decays from
// then on. SchedSnapshot counts running jobs, up to its time; no entry of the
// log does.

// wholePPM is a usage factor of one.
const wholePPM = 1_000_000

func (q *QOS) usageFactorPPM() uint32 {
	if q == nil || q.UsageFactorPPM == nil {
		return wholePPM
	}
	return *q.UsageFactorPPM
}

// HalfLifeS is that with which the usage of a QOS decays.
func (q *QOS) halfLifeS(p *policy.Policy) uint32 {
	if q.NoDecay {
		return fairshare.NoDecay
	}
	return p.Priority.HalfLifeS()
}

// amounts are what a run holds of each TRES, ascending by name, memory in
// bytes; a suspended run does not hold its CPUs, and one that made room for an
// owner is charged nothing.
func (r *Run) amounts(licenses []policy.License) []TRESAmount {
	if r.Suspension != nil && (r.Suspension.Reclaim != 0 || r.Suspension.Owner) {
		return nil
	}
	counts := map[string]uint64{}
	for i := range r.Allocs {
		alloc := &r.Allocs[i]
		counts[sched.TRESNode]++
		if r.Suspension == nil {
			counts[sched.TRESCPU] += uint64(len(alloc.CPUs))
		}
		counts[sched.TRESMemory] += min(alloc.MemoryBytes, math.MaxInt64>>17)
		for d := range alloc.Devices {
			counts[sched.TRESGPU]++
			if model := alloc.Devices[d].Model; model != "" {
				counts[sched.TRESGPU+":"+model]++
			}
		}
	}
	for _, license := range licenses {
		counts[policy.LicensePrefix+license.Name] += uint64(license.Count)
	}
	out := make([]TRESAmount, 0, len(counts))
	for name, count := range counts {
		if count > 0 {
			out = append(out, TRESAmount{Name: name, Count: count})
		}
	}
	slices.SortFunc(out, func(a, b TRESAmount) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// billed is what amounts are billed a second in a partition, in millionths.
func billed(p *policy.Policy, partition *policy.Partition, amounts []TRESAmount) int64 {
	counts, weights, kinds := make([]int64, len(amounts)), []int64(nil), make([]billing.Kind, len(amounts))
	if partition != nil && len(partition.BillingWeights) > 0 {
		weights = make([]int64, len(amounts))
	}
	for i, amount := range amounts {
		counts[i] = int64(min(amount.Count, math.MaxInt64))
		kinds[i] = billingKind(amount.Name)
		if weights == nil {
			continue
		}
		if at, found := slices.BinarySearchFunc(partition.BillingWeights, amount.Name, func(w policy.TRESWeight, name string) int { return cmp.Compare(w.Name, name) }); found {
			weights[i] = partition.BillingWeights[at].Weight
		}
	}
	return billing.Weighted(counts, weights, kinds, p.Priority.MaxTRES)
}

// billedAtLeast is what a waiting job would be billed a second for the least
// that it needs, in the first of its partitions.
func billedAtLeast(p *policy.Policy, asked *Spec, least place.Least) int64 {
	var partition *policy.Partition
	if len(asked.Partitions) > 0 {
		partition, _ = p.Partition(asked.Partitions[0])
	}
	if partition == nil || len(partition.BillingWeights) == 0 {
		return int64(min(least.CPUs, math.MaxInt64))
	}
	amounts := []TRESAmount{
		{Name: sched.TRESCPU, Count: least.CPUs}, {Name: sched.TRESMemory, Count: least.MemoryBytes},
		{Name: sched.TRESNode, Count: least.Nodes}, {Name: sched.TRESGPU, Count: least.GPUs},
	}
	if model := asked.shape.Request.Model; model != "" {
		amounts = append(amounts, TRESAmount{Name: sched.TRESGPU + ":" + model, Count: least.GPUs})
	}
	for _, license := range asked.Licenses {
		amounts = append(amounts, TRESAmount{Name: policy.LicensePrefix + license.Name, Count: uint64(license.Count)})
	}
	return billed(p, partition, amounts) / billing.Scale
}

func billingKind(name string) billing.Kind {
	switch {
	case name == sched.TRESCPU:
		return billing.CPU
	case name == sched.TRESMemory:
		return billing.Memory
	case len(name) > len(policy.LicensePrefix) && name[:len(policy.LicensePrefix)] == policy.LicensePrefix:
		return billing.Global
	}
	return billing.OfNode
}

// usedBy is what the present run of a job has used since it was last charged,
// decayed to the given time. A suspended run uses what it keeps, and no time.
func usedBy(job *Job, atMS int64, halfLifeS, factorPPM uint32) Usage {
	used := func(perSecond int64) int64 {
		return fairshare.Used(times(perSecond, int64(factorPPM), wholePPM), job.Run.chargedMS(), atMS, halfLifeS)
	}
	usage := Usage{AtMS: atMS, Raw: used(job.Run.billing()), WallSeconds: used(wholePPM)}
	if usage.WallSeconds == 0 {
		return Usage{}
	}
	if job.Run.Suspension != nil {
		usage.WallSeconds = 0
	}
	for _, amount := range job.Run.amounts(job.Spec.Licenses) {
		count := amount.Count
		if amount.Name == sched.TRESMemory {
			count >>= 20 // memory over time counts by the MiB
		}
		if seconds := used(times(int64(min(count, math.MaxInt64)), wholePPM, 1)); seconds > 0 {
			usage.TRESSeconds = append(usage.TRESSeconds, TRESAmount{Name: amount.Name, Count: uint64(seconds)})
		}
	}
	return usage
}

// times is a·b/c, at most the highest number there is.
func times(a, b, c int64) int64 {
	high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if high >= uint64(c) {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, uint64(c))
	return int64(min(quotient, math.MaxInt64))
}

// decayed is usage at a later time.
func (u Usage) decayed(atMS int64, halfLifeS uint32) Usage {
	elapsed := atMS - u.AtMS
	if elapsed <= 0 {
		return u
	}
	out := Usage{AtMS: atMS, Raw: fairshare.Decay(u.Raw, elapsed, halfLifeS), WallSeconds: fairshare.Decay(u.WallSeconds, elapsed, halfLifeS)}
	for _, amount := range u.TRESSeconds {
		if left := fairshare.Decay(int64(amount.Count), elapsed, halfLifeS); left > 0 {
			out.TRESSeconds = append(out.TRESSeconds, TRESAmount{Name: amount.Name, Count: uint64(left)})
		}
	}
	return out
}

// plus is the sum of two usages of the same time.
func (u Usage) plus(more Usage) Usage {
	out := Usage{AtMS: max(u.AtMS, more.AtMS), Raw: fairshare.Add(u.Raw, more.Raw), WallSeconds: fairshare.Add(u.WallSeconds, more.WallSeconds)}
	a, b := u.TRESSeconds, more.TRESSeconds
	for len(a) > 0 && len(b) > 0 {
		switch cmp.Compare(a[0].Name, b[0].Name) {
		case -1:
			out.TRESSeconds, a = append(out.TRESSeconds, a[0]), a[1:]
		case 1:
			out.TRESSeconds, b = append(out.TRESSeconds, b[0]), b[1:]
		default:
			sum := fairshare.Add(int64(a[0].Count), int64(b[0].Count))
			out.TRESSeconds = append(out.TRESSeconds, TRESAmount{Name: a[0].Name, Count: uint64(sum)})
			a, b = a[1:], b[1:]
		}
	}
	out.TRESSeconds = append(append(out.TRESSeconds, a...), b...)
	return out
}

// check says what is impossible in a usage.
func (u *Usage) check() error {
	if u.AtMS < 0 || u.Raw < 0 || u.Raw > fairshare.MaxUsage || u.WallSeconds < 0 || u.WallSeconds > fairshare.MaxUsage {
		return fmt.Errorf("its usage is impossible: %d and %d", u.Raw, u.WallSeconds)
	}
	for i, amount := range u.TRESSeconds {
		if amount.Count > fairshare.MaxUsage || i > 0 && u.TRESSeconds[i-1].Name >= amount.Name {
			return fmt.Errorf("its usage of %q is impossible", amount.Name)
		}
	}
	return nil
}

// chargeUsage adds the usage of a run that ends now, or is suspended, or
// continues, to its association, its QOS and its partition's, by the factor of
// its own QOS.
func (s *State) chargeUsage(job *Job) {
	if job.Run == nil || job.Run.chargedMS() >= s.timeMS {
		return
	}
	s.noteOwners(job)
	qos, known := s.QOS(job.Spec.QOS)
	if !known {
		qos = nil
	}
	factor := qos.usageFactorPPM()
	if association, found := s.Association(job.Association); found {
		halfLife := s.policy.Priority.HalfLifeS()
		next := *association
		next.Usage = association.Usage.decayed(s.timeMS, halfLife).plus(usedBy(job, s.timeMS, halfLife, factor))
		s.putAssociation(&next)
	}
	if qos != nil {
		s.chargeQOS(qos, job, factor)
	}
	if partition, found := s.policy.Partition(job.Run.Partition); found && partition.QOS != job.Spec.QOS {
		if ofPartition, known := s.QOS(partition.QOS); known {
			s.chargeQOS(ofPartition, job, factor)
		}
	}
}

func (s *State) chargeQOS(qos *QOS, job *Job, factorPPM uint32) {
	halfLife := qos.halfLifeS(s.policy)
	next := *qos
	next.Usage = qos.Usage.decayed(s.timeMS, halfLife).plus(usedBy(job, s.timeMS, halfLife, factorPPM))
	s.putQOS(&next)
}

// forgetUsage resets the usage of an account: that of all users in it and in
// the accounts below it.
func (a *accounting) forgetUsage(account string) {
	var used []*Association
	a.walkTree(account, 0, func(_ int, association *Association) bool {
		if association.Usage.AtMS != 0 {
			used = append(used, association)
		}
		return true
	})
	for _, association := range used {
		next := *association
		next.Usage = Usage{}
		a.putAssociation(&next)
	}
}

// settleUsage brings all usage up to now under the present half-life, because
// another one comes into force.
func (s *State) settleUsage() {
	var associations []*Association
	for association := range values(s.associations) {
		if next := *association; next.Usage.AtMS != 0 {
			next.Usage = next.Usage.decayed(s.timeMS, s.policy.Priority.HalfLifeS())
			associations = append(associations, &next)
		}
	}
	for _, association := range associations {
		s.putAssociation(association)
	}
	var all []*QOS
	for qos := range s.AllQOS() {
		if next := *qos; next.Usage.AtMS != 0 {
			next.Usage = next.Usage.decayed(s.timeMS, next.halfLifeS(s.policy))
			all = append(all, &next)
		}
	}
	for _, qos := range all {
		s.putQOS(qos)
	}
}

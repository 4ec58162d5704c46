package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// addLimits gives a world a tree of accounts, QOS, licenses, and jobs that run
// under them, with limits so low that they bite.
func (w *world) addLimits(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	s := &w.snapshot
	s.TRES = []string{TRESBilling, TRESCPU, TRESGPU, TRESModel + "a100", TRESModel + "h200", TRESLicense + "matlab", TRESMemory, TRESNode}
	s.Licenses = []License{{Name: "fluent", Total: r.Uint32N(4)}, {Name: "matlab", Total: r.Uint32N(6)}}
	s.Accounting = AccountingPolicy{EnforceLimits: r.IntN(5) > 0, Safe: r.IntN(2) == 0}
	s.Priority.MaxTRES = r.IntN(2) == 0
	s.Associations = []Association{{Parent: -1, Account: "root", Limits: randomLimits(r, s, false), Used: randomUsed(r, s)}}
	for i := range 1 + r.IntN(8) {
		a := Association{Parent: r.IntN(len(s.Associations)), Limits: randomLimits(r, s, false), Used: randomUsed(r, s)}
		for s.Associations[a.Parent].User != "" {
			a.Parent = s.Associations[a.Parent].Parent
		}
		a.Account = fmt.Sprintf("a%d", i)
		if i > 0 && r.IntN(2) == 0 {
			a.Account, a.User = s.Associations[a.Parent].Account, fmt.Sprintf("u%d", i)
		}
		s.Associations = append(s.Associations, a)
	}
	for i := range r.IntN(4) {
		s.QOS = append(s.QOS, QOS{
			Name: fmt.Sprintf("q%d", i), UsageFactorPPM: 500_000 * r.Uint32N(4), OverridesPartition: r.IntN(2) == 0,
			Limits: randomLimits(r, s, true), Used: randomUsed(r, s),
		})
	}
	for i := range s.Partitions {
		s.Partitions[i].QOS = r.IntN(len(s.QOS)+2) - 2
		if r.IntN(2) == 0 {
			s.Partitions[i].BillingWeights = []int64{0, 1_000_000, 2_000_000, 0, 500_000, 100_000, 250_000, 0}
		}
	}
	for i := range s.Waiting {
		job := &s.Waiting[i]
		job.Association, job.QOS, job.UID = r.Int32N(int32(len(s.Associations))+1)-1, r.Int32N(int32(len(s.QOS))+1)-1, r.Uint32N(3)
		job.Licenses = randomLicenses(r)
	}
	for i := range r.IntN(4) {
		w.addRunning(r, JobID(1_000_000+i))
	}
}

func (w *world) addRunning(r *rand.Rand, id JobID) {
	s := &w.snapshot
	shape := s.Shapes[r.IntN(len(s.Shapes))]
	if len(shape.Partitions) == 0 {
		return
	}
	at := shape.Partitions[0]
	placement, _, fits := place.Fit(s.Nodes, s.Partitions[at].Nodes, shape.Request)
	if !fits {
		return
	}
	place.Take(s.Nodes, placement, shape.Request.Exclusive)
	s.Running = append(s.Running, Running{
		ID: id, StartMS: s.NowMS - r.Int64N(7_200_000), TimeLimitS: shape.TimeLimitS, Placement: placement, Partition: at,
		Association: r.Int32N(int32(len(s.Associations))+1) - 1, QOS: r.Int32N(int32(len(s.QOS))+1) - 1, UID: r.Uint32N(3),
		Exclusive: shape.Request.Exclusive, Licenses: randomLicenses(r),
	})
}

func randomLicenses(r *rand.Rand) []LicenseCount {
	if r.IntN(3) > 0 {
		return nil
	}
	return []LicenseCount{{License: r.IntN(2), Count: 1 + r.Uint32N(3)}}
}

func randomUsed(r *rand.Rand, s *Snapshot) Used {
	return Used{TRESMinutes: randomAmounts(r, s, 100, 50, 11), WallMinutes: r.Int64N(100)}
}

// randomAmounts are small numbers, of memory shifted.
func randomAmounts(r *rand.Rand, s *Snapshot, scale int64, oneIn, memoryShift int) Amounts {
	amounts := slices.Repeat(Amounts{NoLimit}, len(s.TRES))
	for tres, name := range s.TRES {
		if r.IntN(100) < oneIn {
			amounts[tres] = (1 + r.Int64N(7)) * scale
			if name == TRESMemory {
				amounts[tres] <<= memoryShift
			}
		}
	}
	return amounts
}

func randomLimits(r *rand.Rand, s *Snapshot, qos bool) Limits {
	l := NoLimits()
	counts := []*int32{&l.GroupJobs, &l.MaxJobs}
	amounts := []*Amounts{&l.GroupTRES, &l.MaxTRESPerJob, &l.MaxTRESPerNode}
	if qos {
		counts = append(counts, &l.MaxJobsPerAccount)
		amounts = append(amounts, &l.MaxTRESPerUser, &l.MaxTRESPerAccount)
	}
	for _, c := range counts {
		if r.IntN(6) == 0 {
			*c = 1 + r.Int32N(5)
		}
	}
	for _, a := range amounts {
		if r.IntN(6) == 0 {
			*a = randomAmounts(r, s, 4, 25, 31)
		}
	}
	for _, a := range []*Amounts{&l.GroupTRESMinutes, &l.GroupTRESRunMinutes, &l.MaxTRESMinutesPerJob} {
		if r.IntN(8) == 0 {
			*a = randomAmounts(r, s, 1000, 30, 11)
		}
	}
	if qos && r.IntN(8) == 0 {
		l.MinTRESPerJob = randomAmounts(r, s, 1, 20, 31)
	}
	if r.IntN(8) == 0 {
		l.GroupWallMinutes = r.Int64N(300)
	}
	if r.IntN(8) == 0 {
		l.MaxWallMinutes = 30 << r.IntN(6)
	}
	return l
}

// naive says in the plainest way what limits say, by counting everything again.
type naive struct {
	*Snapshot
	jobs []naiveJob
}

type naiveJob struct {
	Charge
	amounts, node Amounts
	sinceS        int64
}

func (n *naive) job(c Charge, p place.Placement) naiveJob {
	j := naiveJob{Charge: c, amounts: make(Amounts, len(n.TRES)), node: make(Amounts, len(n.TRES))}
	for _, alloc := range p.Allocs {
		here := make(Amounts, len(n.TRES))
		add := func(name string, amount int64) {
			if at := slices.Index(n.TRES, name); at >= 0 {
				here[at] += amount
			}
		}
		add(TRESCPU, int64(alloc.CPUs.Count()))
		add(TRESMemory, int64(alloc.MemoryBytes))
		add(TRESNode, 1)
		for _, grant := range alloc.Devices {
			add(TRESGPU, 1)
			add(TRESModel+n.Nodes[alloc.Node].Devices[grant.Device].Model, 1)
		}
		here[0] = n.bill(here, c.Partition)
		for tres := range here {
			j.amounts[tres] += here[tres]
			j.node[tres] = max(j.node[tres], here[tres])
		}
	}
	for _, l := range c.Licenses {
		if at := slices.Index(n.TRES, TRESLicense+n.Licenses[l.License].Name); at >= 0 {
			j.amounts[at] += int64(l.Count)
		}
	}
	j.amounts[0] = n.bill(j.amounts, c.Partition)
	return j
}

func (n *naive) bill(a Amounts, partition int) int64 {
	weights := n.Partitions[partition].BillingWeights
	if weights == nil {
		return a[1]
	}
	cpu, gpu, h200, memory := a[1]*weights[1], a[2]*weights[2], a[4]*weights[4], a[6]>>10*weights[6]>>20
	sum := cpu + gpu + h200 + memory
	if n.Priority.MaxTRES {
		sum = max(cpu, gpu, h200, memory)
	}
	return (sum + a[5]*weights[5]) / 1_000_000
}

// under reports whether a job counts for an association.
func (n *naive) under(j *naiveJob, association int) bool {
	for at := int(j.Association); at >= 0; at = n.Associations[at].Parent {
		if at == association {
			return true
		}
	}
	return false
}

func (n *naive) has(j *naiveJob, qos int) bool {
	return int(j.QOS) == qos || j.Partition >= 0 && n.Partitions[j.Partition].QOS == qos
}

func (n *naive) account(j *naiveJob) string {
	if j.Association < 0 {
		return ""
	}
	return n.Associations[j.Association].Account
}

// holders calls back for each limit of a kind that holds for a job: with it,
// what it belongs to, and the other jobs that count.
func (n *naive) holders(j *naiveJob, group bool, limit func(*Limits) int64, among func(qos bool, other *naiveJob) bool, check func(value int64, used *Used, others []naiveJob)) {
	order := []int{n.Partitions[j.Partition].QOS, int(j.QOS)}
	if order[1] >= 0 && n.QOS[order[1]].OverridesPartition {
		slices.Reverse(order)
	}
	for _, q := range order {
		if q < 0 {
			continue
		}
		if value := limit(&n.QOS[q].Limits); value >= 0 {
			check(value, &n.QOS[q].Used, n.filter(func(o *naiveJob) bool { return n.has(o, q) && (among == nil || among(true, o)) }))
			return
		}
	}
	for at := int(j.Association); at >= 0; at = n.Associations[at].Parent {
		value := limit(&n.Associations[at].Limits)
		if value < 0 {
			continue
		}
		check(value, &n.Associations[at].Used, n.filter(func(o *naiveJob) bool {
			return group && n.under(o, at) || !group && n.under(o, int(j.Association))
		}))
		if !group {
			return
		}
	}
}

func (n *naive) filter(keep func(*naiveJob) bool) []naiveJob {
	var kept []naiveJob
	for i := range n.jobs {
		if keep(&n.jobs[i]) {
			kept = append(kept, n.jobs[i])
		}
	}
	return kept
}

func (n *naive) factor(j *naiveJob) float64 {
	if j.QOS < 0 {
		return 1
	}
	return float64(n.QOS[j.QOS].UsageFactorPPM) / 1e6
}

func sum(jobs []naiveJob, of func(*naiveJob) float64) float64 {
	total := 0.0
	for i := range jobs {
		total += of(&jobs[i])
	}
	return total
}

// broken names a limit that a job would pass; "" if there is none.
func (n *naive) broken(j *naiveJob) (name string) {
	for _, l := range j.Licenses {
		used := sum(n.jobs, func(o *naiveJob) float64 {
			if len(o.Licenses) > 0 && o.Licenses[0].License == l.License {
				return float64(o.Licenses[0].Count)
			}
			return 0
		})
		if used+float64(l.Count) > float64(n.Licenses[l.License].Total) {
			return "licenses"
		}
	}
	if !n.Accounting.EnforceLimits {
		return ""
	}
	fail := func(what string, is bool) {
		if is {
			name = what
		}
	}
	user := func(qos bool, o *naiveJob) bool { return !qos || o.UID == j.UID }
	account := func(_ bool, o *naiveJob) bool { return n.account(o) == n.account(j) && n.account(j) != "" }
	scalar := func(what string, group bool, limit func(*Limits) int64, among func(bool, *naiveJob) bool, over func(value int64, used *Used, others []naiveJob) bool) {
		n.holders(j, group, limit, among, func(value int64, used *Used, others []naiveJob) { fail(what, over(value, used, others)) })
	}
	jobs := func(value int64, _ *Used, others []naiveJob) bool { return int64(len(others))+1 > value }
	scalar("GrpJobs", true, func(l *Limits) int64 { return int64(l.GroupJobs) }, nil, jobs)
	scalar("MaxJobs", false, func(l *Limits) int64 { return int64(l.MaxJobs) }, user, jobs)
	if n.account(j) != "" {
		scalar("MaxJobsPerAccount", false, func(l *Limits) int64 { return int64(l.MaxJobsPerAccount) }, account, jobs)
	}
	scalar("MaxWall", false, func(l *Limits) int64 { return l.MaxWallMinutes }, user, func(value int64, _ *Used, _ []naiveJob) bool { return int64(j.TimeLimitS) > value*60 })
	scalar("GrpWall", true, func(l *Limits) int64 { return l.GroupWallMinutes }, nil, func(value int64, used *Used, others []naiveJob) bool {
		return float64(used.WallMinutes)*60+sum(others, func(o *naiveJob) float64 { return float64(o.sinceS) }) >= float64(value)*60
	})
	for tres := range n.TRES {
		n.brokenTRES(j, tres, scalar, user, account)
	}
	return name
}

type scalarCheck func(what string, group bool, limit func(*Limits) int64, among func(bool, *naiveJob) bool, over func(value int64, used *Used, others []naiveJob) bool)

func (n *naive) brokenTRES(j *naiveJob, tres int, scalar scalarCheck, user, account func(bool, *naiveJob) bool) {
	of := func(amounts func(*Limits) Amounts) func(*Limits) int64 {
		return func(l *Limits) int64 {
			if amounts(l) == nil {
				return NoLimit
			}
			return amounts(l)[tres]
		}
	}
	unit := 1.0
	if n.TRES[tres] == TRESMemory {
		unit = 1 << 20
	}
	amount := float64(j.amounts[tres])
	seconds := func(o *naiveJob) float64 {
		if n.TRES[tres] == TRESMemory {
			return float64((o.amounts[tres]+1<<20-1)>>20) * n.factor(o)
		}
		return float64(o.amounts[tres]) * n.factor(o)
	}
	held := func(value int64, _ *Used, others []naiveJob) bool {
		return amount > 0 && sum(others, func(o *naiveJob) float64 { return float64(o.amounts[tres]) })+amount > float64(value)
	}
	scalar("GrpTRES", true, of(func(l *Limits) Amounts { return l.GroupTRES }), nil, held)
	scalar("MaxTRESPerUser", false, of(func(l *Limits) Amounts { return l.MaxTRESPerUser }), user, held)
	if n.account(j) != "" {
		scalar("MaxTRESPerAccount", false, of(func(l *Limits) Amounts { return l.MaxTRESPerAccount }), account, held)
	}
	scalar("MaxTRESPerJob", false, of(func(l *Limits) Amounts { return l.MaxTRESPerJob }), nil, func(value int64, _ *Used, _ []naiveJob) bool { return j.amounts[tres] > value })
	scalar("MaxTRESPerNode", false, of(func(l *Limits) Amounts { return l.MaxTRESPerNode }), nil, func(value int64, _ *Used, _ []naiveJob) bool { return j.node[tres] > value })
	scalar("MinTRESPerJob", false, of(func(l *Limits) Amounts { return l.MinTRESPerJob }), nil, func(value int64, _ *Used, _ []naiveJob) bool { return j.amounts[tres] < value })
	scalar("MaxTRESMinsPerJob", false, of(func(l *Limits) Amounts { return l.MaxTRESMinutesPerJob }), nil, func(value int64, _ *Used, _ []naiveJob) bool {
		return amount/unit*float64(j.TimeLimitS) > float64(value)*60
	})
	left := func(o *naiveJob) float64 { return seconds(o) * float64(max(int64(o.TimeLimitS)-o.sinceS, 0)) }
	scalar("GrpTRESRunMins", true, of(func(l *Limits) Amounts { return l.GroupTRESRunMinutes }), nil, func(value int64, _ *Used, others []naiveJob) bool {
		need := left(j)
		return need > 0 && sum(others, left)+need > float64(value)*60
	})
	scalar("GrpTRESMins", true, of(func(l *Limits) Amounts { return l.GroupTRESMinutes }), nil, func(value int64, used *Used, others []naiveJob) bool {
		past := float64(max(used.TRESMinutes[tres], 0))*60 + sum(others, func(o *naiveJob) float64 { return seconds(o) * float64(o.sinceS) })
		if left(j) == 0 {
			return false
		}
		if n.Accounting.Safe {
			return past+sum(others, left)+left(j) > float64(value)*60
		}
		return past >= float64(value)*60
	})
}

// checkLimits goes through a plan's starts: none passes a limit.
func checkLimits(t *testing.T, s *Snapshot, plan Plan) {
	t.Helper()
	n := &naive{Snapshot: s}
	for i := range s.Running {
		r := &s.Running[i]
		j := n.job(Charge{Job: r.ID, Association: r.Association, QOS: r.QOS, Partition: r.Partition, UID: r.UID, TimeLimitS: r.TimeLimitS, Licenses: r.Licenses}, r.Placement)
		j.sinceS = (s.NowMS - r.StartMS) / 1000
		n.jobs = append(n.jobs, j)
	}
	waiting := make(map[JobID]*Job)
	for i := range s.Waiting {
		waiting[s.Waiting[i].ID] = &s.Waiting[i]
	}
	for _, start := range plan.Starts {
		job := waiting[start.Job]
		j := n.job(Charge{Job: job.ID, Association: job.Association, QOS: job.QOS, Partition: start.Partition, UID: job.UID, TimeLimitS: s.Shapes[job.Shape].TimeLimitS, Licenses: job.Licenses}, start.Placement)
		if name := n.broken(&j); name != "" {
			t.Fatalf("job %+v starts with %v and passes %s", j.Charge, j.amounts, name)
		}
		n.jobs = append(n.jobs, j)
		n.checkLeast(t, &j, s.Shapes[job.Shape].Request.Least())
	}
	n.checkStopped(t, plan)
}

// checkLeast: a job holds what its request asks for at least.
func (n *naive) checkLeast(t *testing.T, j *naiveJob, least place.Least) {
	t.Helper()
	for name, amounts := range map[string][2]uint64{
		TRESCPU: {least.CPUs, least.NodeCPUs}, TRESGPU: {least.GPUs, least.NodeGPUs}, TRESMemory: {least.MemoryBytes, least.NodeMemoryBytes}, TRESNode: {least.Nodes, 1},
	} {
		at := slices.Index(n.TRES, name)
		if uint64(j.amounts[at]) < amounts[0] || uint64(j.node[at]) < amounts[1] {
			t.Fatalf("job %d holds %v, on one node %v, which is less than its least: %+v", j.Job, j.amounts, j.node, least)
		}
	}
}

// checkStopped: a limit that a reason names is one that the job would pass, if
// it got what it asks for at least.
func (n *naive) checkStopped(t *testing.T, plan Plan) {
	t.Helper()
	for _, r := range plan.Reasons {
		if r.Code != ReasonLimit && r.Code != ReasonLicenses {
			continue
		}
		reached := r.Lack.Limit
		if LimitReason(reached, *n.Snapshot) == "" || reached.Limit < 0 || reached.Used < 0 || reached.Need < 0 {
			t.Fatalf("job %d waits for %+v", r.Job, reached)
		}
		if reached.Kind == LimitGroupTRES && reached.Used+reached.Need <= reached.Limit {
			t.Fatalf("job %d waits for a limit that it would not pass: %s", r.Job, LimitSentence(reached, *n.Snapshot))
		}
	}
}

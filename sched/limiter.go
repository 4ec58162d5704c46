package sched

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/billing"
)

// Limiter says which limit a job's start would exceed: those of its association
// and of all above it, of its QOS and its partition's, and the licenses. One is
// made for a pass, or for a command that applies a plan, and told each start;
// so the plan and the state that it is checked against use the same rules.
//
// Cost: making one, a step for each running job and each association above it;
// asking, a step for each limit that is set for the job.
// it; asking, a step for each limit that is set for the job.
type Limiter struct {
	*Snapshot
	Index    *TRESIndex
	timed    bool // what is over time is counted
	names    bool // it is noted which jobs are counted
	payers   map[payerKey]*payer
	counts   []counted // first those of the associations, then of the QOS
	within   map[withinKey]int32
	held     []holding
	licenses []licenseUse
	reached  map[reachedKey]*LimitReached
}

// Charge is the account, user and QOS that a job counts for, and for how long.
type Charge struct {
	Job              JobID
	Association, QOS int32 // as in Job
	Partition        int   // index into Snapshot.Partitions; -1 = it is gone
	UID              uint32
	TimeLimitS       uint32
	Licenses         []LicenseCount
}

// payerKey tells apart what jobs count for. -1 is none.
type payerKey struct {
	association, qos, partitionQOS int32
	uid                            uint32
}

// payer is what is the same for all jobs that count for the same.
type payer struct {
	counts []int32 // that its jobs are counted in
	rules  []rule  // that hold for them
	factor uint32  // of their QOS, in millionths
}

// counted is what jobs together have of something that limits bound.
type counted struct {
	jobs      int64
	submitted int64
	tres      Amounts
	// In seconds, memory in MiB (see overTime); nil unless some limit is over
	// time. spent is from the starts on until now, left until the time limits.
	spent, left Amounts
	wallS       int64
	held        []int32 // positions in Limiter.held
}

// holding is a job that was counted.
type holding struct {
	job     JobID
	uid     uint32
	payer   int32 // index of its association; -1 = none
	amounts Amounts
}

// withinKey is a user or an account (by its association) within a QOS.
type withinKey struct {
	qos     int32
	account int32 // -1 = the user is meant
	uid     uint32
}

type licenseUse struct {
	used uint64
	held []licenseHolding
}

type licenseHolding struct {
	job   JobID
	count uint32
}

// NewLimiter counts what the snapshot's running jobs hold. Of the snapshot it
// needs the time, TRES, Associations, QOS, Licenses, of the Partitions their
// QOS and weights, and Running; Nodes only for running jobs without TRES.
func NewLimiter(s *Snapshot) *Limiter { return newLimiter(s, s.limitsTime(), true) }

// NewUses is a Limiter that also counts use over time where nothing limits it,
// for requests that show the use.
func NewUses(s *Snapshot) *Limiter { return newLimiter(s, true, true) }

// NewKept is a Limiter that is kept while jobs come and go: see Return. It
// cannot count use over time, and says so; and it does not say which jobs have
// what is used.
func NewKept(s *Snapshot) (l *Limiter, all bool) {
	return newLimiter(s, false, false), !s.limitsTime()
}

// limitsTime reports whether some limit is over time.
func (s *Snapshot) limitsTime() bool {
	timed := func(l *Limits) bool {
		return l.GroupTRESMinutes != nil || l.GroupTRESRunMinutes != nil || l.GroupWallMinutes >= 0
	}
	return slices.ContainsFunc(s.Associations, func(a Association) bool { return timed(&a.Limits) }) ||
		slices.ContainsFunc(s.QOS, func(q QOS) bool { return timed(&q.Limits) })
}

func newLimiter(s *Snapshot, timed, names bool) *Limiter {
	l := &Limiter{
		Snapshot: s,
		Index:    NewTRESIndex(s.TRES, s.Licenses),
		timed:    timed,
		names:    names,
		payers:   make(map[payerKey]*payer),
		within:   make(map[withinKey]int32),
		counts:   make([]counted, len(s.Associations)+len(s.QOS)),
		licenses: make([]licenseUse, len(s.Licenses)),
		reached:  make(map[reachedKey]*LimitReached),
	}
	for i := range s.Running {
		l.takeRunning(&s.Running[i])
	}
	return l
}

func (l *Limiter) takeRunning(r *Running) {
	c := Charge{
		Job: r.ID, Association: r.Association, QOS: r.QOS, Partition: r.Partition, UID: r.UID,
		TimeLimitS: r.TimeLimitS, Licenses: r.Licenses,
	}
	amounts := r.TRES
	if amounts == nil {
		amounts = l.Index.New()
		for i := range r.Placement.Allocs {
			l.Index.addAlloc(amounts, &r.Placement.Allocs[i], l.Nodes)
		}
		l.complete(amounts, &c)
	}
	spans := spans{ranS: max(l.NowMS-r.StartMS-r.PausedMS, 0) / 1000}
	if !r.Suspended { // what it keeps meanwhile is charged when it continues
		spans.sinceS = max(l.NowMS-max(r.StartMS, r.ChargedMS), 0) / 1000
	}
	l.take(&c, amounts, spans)
}

// spans are how long a job has run: in all, and since it was charged.
type spans struct{ ranS, sinceS int64 }

// Take counts a job that starts now and holds these amounts.
func (l *Limiter) Take(c Charge, amounts Amounts) { l.take(&c, amounts, spans{}) }

func (l *Limiter) take(c *Charge, amounts Amounts, ran spans) {
	if p := l.payerOf(c); len(p.counts) > 0 {
		if l.names {
			l.held = append(l.held, holding{job: c.Job, uid: c.UID, payer: l.association(c), amounts: amounts})
		}
		for _, at := range p.counts {
			l.count(&l.counts[at], c, p, amounts, ran)
		}
	}
	for _, want := range c.Licenses {
		use := &l.licenses[want.License]
		use.used += uint64(want.Count)
		if l.names {
			use.held = append(use.held, licenseHolding{job: c.Job, count: want.Count})
		}
	}
}

// Return takes back what Take counted, of a Limiter that is kept.
func (l *Limiter) Return(c Charge, amounts Amounts) {
	for _, at := range l.payerOf(&c).counts {
		to := &l.counts[at]
		to.jobs--
		for tres, amount := range amounts {
			to.tres[tres] -= amount
		}
	}
	for _, want := range c.Licenses {
		l.licenses[want.License].used -= uint64(want.Count)
	}
}

func (l *Limiter) count(to *counted, c *Charge, p *payer, amounts Amounts, ran spans) {
	if to.tres == nil {
		to.tres = l.Index.New()
	}
	to.jobs++
	if l.names {
		to.held = append(to.held, int32(len(l.held)-1))
	}
	for tres, amount := range amounts {
		to.tres[tres] = billing.Add(to.tres[tres], amount)
	}
	if !l.timed {
		return
	}
	if to.left == nil {
		to.spent, to.left = l.Index.New(), l.Index.New()
	}
	to.wallS += ran.sinceS
	left := remaining(c.TimeLimitS, ran.ranS)
	for tres, amount := range amounts {
		to.spent[tres] = billing.Add(to.spent[tres], l.used(p, tres, amount, ran.sinceS))
		to.left[tres] = billing.Add(to.left[tres], l.used(p, tres, amount, left))
	}
}

// remaining is how much of a time limit is left.
func remaining(limitS uint32, sinceS int64) int64 {
	if limitS == Unlimited {
		return int64(Unlimited)
	}
	return max(int64(limitS)-sinceS, 0)
}

// Submit counts tasks that wait or run for the limits of what may be
// submitted; a negative number takes them back.
func (l *Limiter) Submit(c Charge, tasks int64) {
	for _, at := range l.payerOf(&c).counts {
		l.counts[at].submitted += tasks
	}
}

// Counts is what is counted, by what it counts for, without zeros: for
// comparing two Limiters of one snapshot.
func (l *Limiter) Counts() map[string]string {
	counts := make(map[string]string)
	put := func(key string, at int) {
		c := &l.counts[at]
		held := ""
		for tres, amount := range c.tres {
			if amount != 0 {
				held += fmt.Sprintf(" %s=%d", l.TRES[tres], amount)
			}
		}
		if c.submitted != 0 || c.jobs != 0 || held != "" {
			counts[key] = fmt.Sprintf("%d submitted, %d running with%s", c.submitted, c.jobs, held)
		}
	}
	for at := range l.Associations {
		put(fmt.Sprint("association ", at), at)
	}
	for at := range l.QOS {
		put("qos "+l.QOS[at].Name, len(l.Associations)+at)
	}
	for key, at := range l.within {
		put(fmt.Sprint("qos ", l.QOS[key.qos].Name, " account ", key.account, " uid ", key.uid), int(at))
	}
	for at := range l.licenses {
		if used := l.licenses[at].used; used != 0 {
			counts["license "+l.Licenses[at].Name] = fmt.Sprint(used)
		}
	}
	return counts
}

// complete adds the licenses and the billing of a job.
func (l *Limiter) complete(amounts Amounts, c *Charge) {
	l.Index.Complete(amounts, c.Licenses, l.weights(c.Partition), l.Priority.MaxTRES)
}

func (l *Limiter) weights(partition int) []int64 {
	if partition < 0 {
		return nil
	}
	return l.Partitions[partition].BillingWeights
}

// payerOf finds, or makes, the payer that a job counts for.
func (l *Limiter) payerOf(c *Charge) *payer {
	key := payerKey{association: l.association(c), qos: l.known(c.QOS), partitionQOS: -1, uid: c.UID}
	if c.Partition >= 0 {
		key.partitionQOS = l.known(int32(l.Partitions[c.Partition].QOS))
	}
	p, known := l.payers[key]
	if known {
		return p
	}
	p = &payer{factor: billing.Scale}
	if key.qos >= 0 {
		p.factor = l.QOS[key.qos].UsageFactorPPM
	}
	for at := key.association; at >= 0; at = int32(l.Associations[at].Parent) {
		p.counts = append(p.counts, at)
	}
	for _, qos := range l.qosInOrder(key) {
		group, user, account := l.countsOfQOS(qos, key)
		p.counts = append(p.counts, group, user)
		if account >= 0 {
			p.counts = append(p.counts, account)
		}
	}
	p.rules = l.rulesOf(key)
	l.payers[key] = p
	return p
}

// association is that of a job, or -1.
func (l *Limiter) association(c *Charge) int32 {
	if int(c.Association) >= len(l.Associations) {
		return -1
	}
	return max(c.Association, -1)
}

// known is the index of a QOS, or -1.
func (l *Limiter) known(qos int32) int32 {
	if int(qos) >= len(l.QOS) {
		return -1
	}
	return max(qos, -1)
}

// countsOfQOS is what counts for a QOS as a whole, for a user in it, and for
// an account in it; the last is -1 for a job of no account.
func (l *Limiter) countsOfQOS(qos int32, key payerKey) (group, user, account int32) {
	group = int32(len(l.Associations)) + qos
	user = l.countWithin(withinKey{qos: qos, account: -1, uid: key.uid})
	account = -1
	for at := key.association; at >= 0; at = int32(l.Associations[at].Parent) {
		if l.Associations[at].User == "" {
			return group, user, l.countWithin(withinKey{qos: qos, account: at})
		}
	}
	return group, user, account
}

func (l *Limiter) countWithin(key withinKey) int32 {
	at, known := l.within[key]
	if !known {
		at = int32(len(l.counts))
		l.counts = append(l.counts, counted{})
		l.within[key] = at
	}
	return at
}

// used is an amount over time as it counts under a payer's QOS.
func (l *Limiter) used(p *payer, tres int, amount, seconds int64) int64 {
	n := l.overTime(tres, amount, seconds)
	if p.factor == billing.Scale {
		return n
	}
	high, low := bits.Mul64(uint64(n), uint64(p.factor))
	if high >= billing.Scale {
		return math.MaxInt64
	}
	n64, _ := bits.Div64(high, low, billing.Scale)
	return int64(min(n64, math.MaxInt64))
}

// overTime multiplies an amount with seconds. Memory counts in MiB, begun ones
// whole: in bytes a week of a large machine would be too much for a number.
func (l *Limiter) overTime(tres int, amount, seconds int64) int64 {
	if tres == l.Index.memory {
		amount = amount>>20 + min(amount&(1<<20-1), 1)
	}
	return product(amount, seconds)
}

// product multiplies numbers that are not negative, and stops at the highest.
func product(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

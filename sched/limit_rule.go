package sched

// rule is one limit that holds for a job.
type rule struct {
	kind             LimitKind
	tres             int16 // -1 = it is not about one
	association, qos int32 // whose it is; the other one is -1
	count            int32 // the count that it bounds; -1 = it bounds the job alone
	// value is the limit. Of minutes it is seconds, and memory over time is in
	// MiB (see Used).
	value int64
}

// ruleMaker collects the rules of one payer.
type ruleMaker struct {
	rules []rule
	// Rules before this one replace those of the same kind and TRES that come
	// now.
	before           int
	association, qos int32
	// The counts that limits of groups, of a user, and of an account bound.
	group, user, account int32
}

// set adds a limit, unless an earlier one replaces it.
func (m *ruleMaker) set(kind LimitKind, tres int, value int64) {
	if value < 0 {
		return
	}
	for i := range m.rules[:m.before] {
		if m.rules[i].kind == kind && int(m.rules[i].tres) == tres {
			return
		}
	}
	r := rule{kind: kind, tres: int16(tres), association: m.association, qos: m.qos, count: -1, value: value}
	switch kind {
	case LimitGroupJobs, LimitGroupWall, LimitGroupTRES, LimitGroupTRESMinutes, LimitGroupTRESRunMinutes, LimitGroupSubmit:
		r.count = m.group
	case LimitMaxJobs, LimitMaxTRESPerUser, LimitMaxSubmit:
		r.count = m.user
	case LimitMaxJobsPerAccount, LimitMaxTRESPerAccount, LimitMaxSubmitPerAccount:
		r.count = m.account
	}
	if kind.OverTime() {
		r.value = product(value, 60)
	}
	m.rules = append(m.rules, r)
}

func (m *ruleMaker) setEach(kind LimitKind, values Amounts) {
	for tres, value := range values {
		m.set(kind, tres, value)
	}
}

// setGroup adds what bounds an association or a QOS as a whole.
func (m *ruleMaker) setGroup(l *Limits) {
	m.set(LimitGroupJobs, -1, int64(l.GroupJobs))
	m.set(LimitGroupWall, -1, l.GroupWallMinutes)
	m.setEach(LimitGroupTRES, l.GroupTRES)
	m.setEach(LimitGroupTRESMinutes, l.GroupTRESMinutes)
	m.setEach(LimitGroupTRESRunMinutes, l.GroupTRESRunMinutes)
	m.set(LimitGroupSubmit, -1, int64(l.GroupSubmit))
}

// setMax adds what bounds a job, and a user.
func (m *ruleMaker) setMax(l *Limits) {
	m.set(LimitMaxWall, -1, l.MaxWallMinutes)
	m.setEach(LimitMaxTRESPerJob, l.MaxTRESPerJob)
	m.setEach(LimitMaxTRESPerNode, l.MaxTRESPerNode)
	m.setEach(LimitMaxTRESMinutesPerJob, l.MaxTRESMinutesPerJob)
	m.set(LimitMaxJobs, -1, int64(l.MaxJobs))
	m.set(LimitMaxSubmit, -1, int64(l.MaxSubmit))
}

// setQOS adds what only a QOS has.
func (m *ruleMaker) setQOS(l *Limits) {
	m.setEach(LimitMinTRESPerJob, l.MinTRESPerJob)
	m.setEach(LimitMaxTRESPerUser, l.MaxTRESPerUser)
	if m.account < 0 {
		return
	}
	m.setEach(LimitMaxTRESPerAccount, l.MaxTRESPerAccount)
	m.set(LimitMaxJobsPerAccount, -1, int64(l.MaxJobsPerAccount))
	m.set(LimitMaxSubmitPerAccount, -1, int64(l.MaxSubmitPerAccount))
}

// rulesOf are the limits that hold for a payer, in the order in which they are
// checked, as resource_limits, "Hierarchy", has it: the partition's QOS, the
// job's (the other way round under OverPartQOS), the association, and those
// above it up to the root. A limit that was set replaces the same one further
// on; only those of groups hold at each association, since each counts
// something else.
func (l *Limiter) rulesOf(key payerKey) []rule {
	m := ruleMaker{association: -1}
	for _, qos := range l.qosInOrder(key) {
		m.before, m.qos = len(m.rules), qos
		m.group, m.user, m.account = l.countsOfQOS(qos, key)
		limits := &l.QOS[qos].Limits
		m.setQOS(limits)
		m.setMax(limits)
		m.setGroup(limits)
	}
	m.qos = -1
	m.user, m.account = key.association, -1
	ofQOS := len(m.rules)
	for at := key.association; at >= 0; at = int32(l.Associations[at].Parent) {
		m.association, m.group = at, at
		m.before = len(m.rules)
		m.setMax(&l.Associations[at].Limits)
		m.before = ofQOS
		m.setGroup(&l.Associations[at].Limits)
	}
	return m.rules
}

// qosInOrder is the QOS whose limits hold for a job, the first first.
func (l *Limiter) qosInOrder(key payerKey) []int32 {
	job, partition := key.qos, key.partitionQOS
	switch {
	case job < 0 && partition < 0:
		return nil
	case job < 0:
		return []int32{partition}
	case partition < 0 || partition == job:
		return []int32{job}
	case l.QOS[job].OverridesPartition:
		return []int32{job, partition}
	}
	return []int32{partition, job}
}

// NoLimits is Limits of which none is set.
func NoLimits() Limits {
	return Limits{
		GroupJobs: NoLimit, GroupSubmit: NoLimit, GroupWallMinutes: NoLimit, MaxJobs: NoLimit, MaxSubmit: NoLimit,
		MaxWallMinutes: NoLimit, MaxJobsPerAccount: NoLimit, MaxSubmitPerAccount: NoLimit,
	}
}

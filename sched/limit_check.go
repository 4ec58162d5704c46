package sched

import "github.com/gleaner-hpc/gleaner/sched/billing"

// LimitReached is a limit that keeps a job from starting, with its figures.
// Reasons share it, so nobody changes it.
type LimitReached struct {
	Kind LimitKind
	TRES int // index into Snapshot.TRES, or for LimitLicenses into Licenses; -1 = it is not about one
	// Whose it is: one of them is -1, or both for LimitLicenses.
	Association, QOS int32
	// User is whose jobs count, for limits of a user in a QOS; Account that
	// whose do, for limits of an account there, by its association, else -1.
	User    uint32
	Account int32
	// Limit, Used and Need are in the TRES's unit, in jobs, in minutes, or in
	// the TRES's unit times minutes, memory in MiB then. Need is what the job
	// would add.
	Limit, Used, Need int64
	// Holders are a few of the jobs that have what is used, by number; Others
	// is how many more jobs count.
	Holders []LimitHolder
	Others  int

	lack Lack // that holds it, for reasons to point at
}

// LimitHolder is a job that counts for a limit.
type LimitHolder struct {
	Job         JobID
	Association int32 // -1 = none
	UID         uint32
	Amount      int64 // of the TRES or license, if it is about one
}

// maxHolders is how many jobs a reason names.
const maxHolders = 3

// reachedKey tells apart what a LimitReached says.
type reachedKey struct {
	rule
	need  int64
	jobs  int   // counted when it was made
	payer int32 // whose jobs count: the association's own, for MaxJobs
	uid   uint32
}

// Stops is the limit that the job would pass if it started now with what it
// asks for; nil if there is none.
func (l *Limiter) Stops(c Charge, a *Ask) *LimitReached {
	if l.Accounting.EnforceLimits {
		p := l.payerOf(&c)
		for i := range p.rules {
			r := &p.rules[i]
			if limitKinds[r.kind].submit {
				continue
			}
			if need, over := l.over(r, p, &c, a); over {
				return l.reachedBy(r, &c, need)
			}
		}
	}
	return l.lacksLicense(c.Licenses)
}

// over reports whether a rule would be broken, and what the job adds to what it
// bounds.
func (l *Limiter) over(r *rule, p *payer, c *Charge, a *Ask) (need int64, over bool) {
	var have *counted
	if r.count >= 0 {
		have = &l.counts[r.count]
	}
	tres := int(r.tres)
	switch r.kind {
	case LimitGroupJobs, LimitMaxJobs, LimitMaxJobsPerAccount:
		return 1, have.jobs >= r.value
	case LimitGroupWall:
		return 0, billing.Add(l.past(r).wallS(), have.wallS) >= r.value
	case LimitGroupTRES, LimitMaxTRESPerUser, LimitMaxTRESPerAccount:
		need = a.Amounts[tres]
		return need, need > 0 && billing.Add(have.tres.of(tres), need) > r.value
	case LimitGroupTRESMinutes:
		need = l.used(p, tres, a.Amounts[tres], int64(c.TimeLimitS))
		return need, need > 0 && l.overMinutes(r, have, need)
	case LimitGroupTRESRunMinutes:
		need = l.used(p, tres, a.Amounts[tres], int64(c.TimeLimitS))
		return need, need > 0 && billing.Add(have.left.of(tres), need) > r.value
	case LimitMaxTRESPerJob:
		return a.Amounts[tres], a.Amounts[tres] > r.value
	case LimitMaxTRESPerNode:
		return a.Node[tres], a.Node[tres] > r.value
	case LimitMaxTRESMinutesPerJob:
		need = l.overTime(tres, a.Amounts[tres], int64(c.TimeLimitS))
		return need, need > r.value
	case LimitMaxWall:
		return int64(c.TimeLimitS), int64(c.TimeLimitS) > r.value
	case LimitMinTRESPerJob:
		return a.Amounts[tres], a.Amounts[tres] < r.value && !a.open(l.Index, tres)
	}
	return 0, false
}

// overMinutes: what has been used must be below the limit, and if no job may
// be started that could pass it ("safe"), all that running jobs may still use
// counts too.
func (l *Limiter) overMinutes(r *rule, have *counted, need int64) bool {
	used := l.minutesUsed(r, have)
	if !l.Accounting.Safe {
		return used >= r.value
	}
	return billing.Add(billing.Add(used, have.left.of(int(r.tres))), need) > r.value
}

// minutesUsed is what was used of a TRES over time, until now.
func (l *Limiter) minutesUsed(r *rule, have *counted) int64 {
	before := product(max(l.past(r).TRESMinutes.of(int(r.tres)), 0), 60)
	return billing.Add(before, have.spent.of(int(r.tres)))
}

// past is what was used under the limits of a rule's owner.
func (l *Limiter) past(r *rule) *Used {
	if r.qos >= 0 {
		return &l.QOS[r.qos].Used
	}
	return &l.Associations[r.association].Used
}

func (u *Used) wallS() int64 { return product(max(u.WallMinutes, 0), 60) }

// of is an entry of amounts that may be none.
func (a Amounts) of(tres int) int64 {
	if tres >= len(a) {
		return 0
	}
	return a[tres]
}

// lacksLicense is the first license of which there are too few; nil if there
// is none.
func (l *Limiter) lacksLicense(licenses []LicenseCount) *LimitReached {
	for _, want := range licenses {
		use := &l.licenses[want.License]
		total := uint64(l.Licenses[want.License].Total)
		if use.used+uint64(want.Count) <= total {
			continue
		}
		r := rule{kind: LimitLicenses, tres: int16(want.License), association: -1, qos: -1, count: -1, value: int64(total)}
		key := reachedKey{rule: r, need: int64(want.Count), jobs: len(use.held)}
		made, known := l.reached[key]
		if !known || !l.names {
			made = &LimitReached{
				Kind: LimitLicenses, TRES: want.License, Association: -1, QOS: -1, Account: -1,
				Limit: int64(total), Used: int64(use.used), Need: int64(want.Count),
			}
			for i, h := range use.held {
				if !made.name(LimitHolder{Job: h.job, Association: -1, Amount: int64(h.count)}) {
					made.Others = len(use.held) - i
					break
				}
			}
			made.lack.Limit = made
			l.reached[key] = made
		}
		return made
	}
	return nil
}

// reachedBy makes, or finds, the figures of a rule that a job would break.
func (l *Limiter) reachedBy(r *rule, c *Charge, need int64) *LimitReached {
	if !l.names {
		return l.makeReached(r, c, need) // the figures of one that was made before may be old
	}
	key := reachedKey{rule: *r, need: need, payer: l.association(c), uid: c.UID}
	if r.count >= 0 {
		key.jobs = len(l.counts[r.count].held)
	}
	if group := limitKinds[r.kind].group; group || r.count < 0 {
		key.payer, key.uid = -1, 0 // it is the same for all
	}
	made, known := l.reached[key]
	if !known {
		made = l.makeReached(r, c, need)
		l.reached[key] = made
	}
	return made
}

func (l *Limiter) makeReached(r *rule, c *Charge, need int64) *LimitReached {
	made := &LimitReached{
		Kind: r.kind, TRES: int(r.tres), Association: r.association, QOS: r.qos, User: c.UID, Account: -1,
		Limit: r.value, Need: need,
	}
	made.lack.Limit = made
	if at := l.association(c); at >= 0 {
		made.Account = at // the job's own, which says whose account it is
	}
	if r.count < 0 {
		return l.inMinutes(made)
	}
	have := &l.counts[r.count]
	switch r.kind {
	case LimitGroupWall:
		made.Used = billing.Add(l.past(r).wallS(), have.wallS)
	case LimitGroupTRES, LimitMaxTRESPerUser, LimitMaxTRESPerAccount:
		made.Used = have.tres.of(made.TRES)
	case LimitGroupTRESMinutes:
		made.Used = l.minutesUsed(r, have)
		if l.Accounting.Safe {
			made.Used = billing.Add(made.Used, have.left.of(made.TRES))
		}
	case LimitGroupTRESRunMinutes:
		made.Used = have.left.of(made.TRES)
	case LimitGroupSubmit, LimitMaxSubmit, LimitMaxSubmitPerAccount:
		made.Used = have.submitted
		return made
	default:
		made.Used = have.jobs
	}
	l.nameHolders(made, have)
	return l.inMinutes(made)
}

// nameHolders names the first few jobs that have what is used.
func (l *Limiter) nameHolders(made *LimitReached, have *counted) {
	for i, at := range have.held {
		h := &l.held[at]
		amount := int64(0)
		if made.TRES >= 0 {
			if amount = h.amounts.of(made.TRES); amount == 0 {
				continue
			}
		}
		if !made.name(LimitHolder{Job: h.job, Association: h.payer, UID: h.uid, Amount: amount}) {
			made.Others = len(have.held) - i
			return
		}
	}
}

// name adds a job and returns false if there are enough of them. Tasks of an
// array that start in one pass have no number of their own yet, and are added
// up.
func (r *LimitReached) name(h LimitHolder) bool {
	last := len(r.Holders) - 1
	switch {
	case last >= 0 && r.Holders[last].Job == h.Job:
		r.Holders[last].Amount += h.Amount
	case len(r.Holders) == maxHolders:
		return false
	default:
		r.Holders = append(r.Holders, h)
	}
	return true
}

// inMinutes makes minutes of what is in seconds: what is used is rounded down,
// what a job adds up.
func (l *Limiter) inMinutes(made *LimitReached) *LimitReached {
	if made.Kind.OverTime() {
		made.Limit, made.Used = made.Limit/60, made.Used/60
		made.Need = made.Need/60 + min(made.Need%60, 1)
	}
	return made
}

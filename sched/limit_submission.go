package sched

// NeverStarts is the limit that would keep a job from starting even if nothing
// else ran and nothing had been used, if the job must be refused at submission
// for it: under a QOS that says so (DenyOnLimit), where limits of groups count
// like those of a job; and otherwise for the longest time that its association
// allows (resource_limits, "MaxWallDurationPerJob"). A job that is not refused
// waits with the limit as its reason.
func (l *Limiter) NeverStarts(c Charge, a *Ask) *LimitReached {
	if !l.Accounting.EnforceLimits {
		return nil
	}
	p := l.payerOf(&c)
	qos := l.known(c.QOS)
	strict := qos >= 0 && l.QOS[qos].Limits.DenyOnLimit
	for i := range p.rules {
		r := p.rules[i]
		if !strict && (r.kind != LimitMaxWall || r.qos >= 0) || limitKinds[r.kind].submit {
			continue
		}
		if need, never := l.overAlone(&r, p, &c, a); never {
			made := l.makeReached(&r, &c, need)
			made.Used, made.Holders, made.Others = 0, nil, 0
			return made
		}
	}
	return nil
}

// overAlone reports whether a job breaks a rule all by itself.
func (l *Limiter) overAlone(r *rule, p *payer, c *Charge, a *Ask) (need int64, over bool) {
	tres := int(r.tres)
	switch r.kind {
	case LimitGroupJobs, LimitMaxJobs, LimitMaxJobsPerAccount:
		return 1, r.value < 1
	case LimitGroupWall:
		return 0, false // it decays
	case LimitGroupTRES, LimitMaxTRESPerUser, LimitMaxTRESPerAccount:
		return a.Amounts[tres], a.Amounts[tres] > r.value
	case LimitGroupTRESMinutes, LimitGroupTRESRunMinutes:
		need = l.used(p, tres, a.Amounts[tres], int64(c.TimeLimitS))
		return need, need > r.value
	}
	return l.over(r, p, c, a)
}

// LongestS is the longest time limit that a job may request; Unlimited if
// nothing bounds it. A job that requests none gets at most this.
func (l *Limiter) LongestS(c Charge) uint32 {
	if l.Accounting.EnforceLimits {
		for _, r := range l.payerOf(&c).rules {
			if r.kind == LimitMaxWall {
				return uint32(min(r.value, int64(Unlimited)))
			}
		}
	}
	return Unlimited
}

// StopsSubmission is the limit that the given number of further tasks, waiting
// or running, would exceed; nil if there is none. Submit has counted those
// submitted before.
func (l *Limiter) StopsSubmission(c Charge, tasks int64) *LimitReached {
	if !l.Accounting.EnforceLimits {
		return nil
	}
	for _, r := range l.payerOf(&c).rules {
		if limitKinds[r.kind].submit && l.counts[r.count].submitted > r.value-tasks {
			return l.makeReached(&r, &c, tasks)
		}
	}
	return nil
}

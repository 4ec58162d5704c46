package sched

// eligible reports whether only a lack of resources keeps a job from starting,
// and if something else does, what: a hold, its begin time, jobs that it waits
// for, its deadline, its container image.
func (p *pass) eligible(job *Job) (ReasonCode, bool) {
	switch {
	case job.Held != NotHeld:
		return job.Held.Reason(), false
	case job.Dependency == DependencyNeverSatisfied:
		return ReasonDependencyNeverSatisfied, false
	case job.Dependency == DependencyUnfulfilled:
		return ReasonDependency, false
	case job.BeginMS > p.NowMS:
		return ReasonBeginTime, false
	case job.DeadlineMS != 0 && p.latestStart(job) < p.NowMS:
		return ReasonDeadline, false
	case job.Reservation != ReasonNone:
		return job.Reservation, false
	case job.NowhereToResume:
		return ReasonImage, false
	case job.Pulls:
		return ReasonImagePull, false
	}
	return ReasonNone, true
}

// latestStart is until when a job with a deadline must start. A job without a
// time limit is ended at its deadline.
func (p *pass) latestStart(job *Job) int64 {
	limit := p.Shapes[job.Shape].leastS()
	if limit == Unlimited {
		return job.DeadlineMS
	}
	return job.DeadlineMS - int64(limit)*1000
}

// begins is when a job becomes able to start by time alone: its begin time comes, or the
// delay after the start of a job that it waits for is over. 0 = it does not.
func (p *pass) begins(job *Job) int64 {
	if job.BeginMS <= p.NowMS || job.Held != NotHeld || job.Dependency == DependencyNeverSatisfied {
		return 0
	}
	return job.BeginMS
}

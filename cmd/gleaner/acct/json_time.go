package acct

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// times are those that jobs and steps have in all shapes.
type times struct {
	Elapsed   uint32        `json:"elapsed"`
	Suspended uint32        `json:"suspended"`
	Limit     show.Optional `json:"limit"`
	Total     span          `json:"total"`
}

// cpuTimes are parts of the total.
type cpuTimes struct {
	User   span `json:"user"`
	System span `json:"system"`
}

type span struct {
	Seconds      uint64 `json:"seconds"`
	Microseconds uint64 `json:"microseconds"`
}

func spanOf(microseconds uint64) span { return span{microseconds / 1e6, microseconds % 1e6} }

// timesOld are those of a job, and of a step, in the old shape.
type timesOld struct {
	times
	Eligible   show.Optional `json:"eligible"`
	End        show.Optional `json:"end"`
	Start      show.Optional `json:"start"`
	Submission show.Optional `json:"submission"`
}

// jobTimes are those of a job: plain Unix seconds, 0 for none.
type jobTimes struct {
	times
	cpuTimes
	Eligible   int64         `json:"eligible"`
	End        int64         `json:"end"`
	Planned    show.Optional `json:"planned"` // how long it waited, in seconds
	Start      int64         `json:"start"`
	Submission int64         `json:"submission"`
}

type stepTimes struct {
	times
	cpuTimes
	End   show.Optional `json:"end"`
	Start show.Optional `json:"start"`
}

func timesOf(s show.JSONShape, r past.Row) times {
	record := times{
		Elapsed: r.ElapsedS(), Suspended: r.SuspendedS(), Limit: s.Minutes(r.Job().GetTimeLimitS()), Total: spanOf(r.Job().GetUsage().GetCpuNs() / 1e3),
	}
	if r.Of != nil {
		record.Total = spanOf(r.Of.UserUS + r.Of.SystemUS)
	}
	return record
}

// cpuTimesOf are of a numbered step; of a job that of all of those, since of its script only
// the total is known.
func cpuTimesOf(r past.Row) cpuTimes {
	var user, system uint64
	switch {
	case r.Of != nil:
		user, system = r.Of.UserUS, r.Of.SystemUS
	case r.Step == past.Whole:
		for _, one := range past.Rows(r.Run)[1:] {
			if one.Of != nil {
				user, system = user+one.Of.UserUS, system+one.Of.SystemUS
			}
		}
	}
	return cpuTimes{spanOf(user), spanOf(system)}
}

// endMS is when it ended, 0 = not yet.
func endMS(r past.Row) int64 {
	if !r.Run.GetLive() || r.Of != nil && r.Of.EndMS != 0 {
		return r.EndMS()
	}
	return 0
}

func oldTimeOf(s show.JSONShape, r past.Row) timesOld {
	return timesOld{
		times: timesOf(s, r), Eligible: s.Moment(r.Job().GetEligibleMs()), Start: s.Moment(r.StartMS()), Submission: s.Moment(r.Job().GetSubmitMs()), End: s.Moment(endMS(r)),
	}
}

func jobTimeOf(s show.JSONShape, r past.Row) any {
	if s == show.JSONOld {
		return oldTimeOf(s, r)
	}
	seconds := func(ms int64) int64 { return max(ms, 0) / 1000 }
	record := jobTimes{
		times: timesOf(s, r), cpuTimes: cpuTimesOf(r), Eligible: seconds(r.Job().GetEligibleMs()), Start: seconds(r.StartMS()),
		Submission: seconds(r.Job().GetSubmitMs()), End: seconds(endMS(r)), Planned: s.Unset(),
	}
	if waited, known := r.WaitedS(); known {
		record.Planned = s.Count(uint64(waited))
	}
	return record
}

func stepTimeOf(s show.JSONShape, r past.Row) any {
	if s == show.JSONOld {
		return oldTimeOf(s, r)
	}
	return stepTimes{times: timesOf(s, r), cpuTimes: cpuTimesOf(r), Start: s.Moment(r.StartMS()), End: s.Moment(endMS(r))}
}

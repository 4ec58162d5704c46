package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// resetEvery is how often the loop looks, at least: the policy may have another
// period by then.
const resetEvery = 5 * time.Second

// resetUsage resets all usage whenever a period of the policy begins, by the
// calendar of this host.
func (l *Leader) resetUsage(ctx context.Context) {
	for pause(ctx, l.untilReset(time.Now())) {
		l.ResetUsage(ctx, time.Now())
	}
}

// untilReset is how long to wait.
func (l *Leader) untilReset(now time.Time) time.Duration {
	if due, is := l.nextReset(now.Location()); is {
		return min(max(due.Sub(now), time.Second), resetEvery)
	}
	return resetEvery
}

// ResetUsage does that once if it is due, now being the wall clock's time.
// Periods that began while nobody led are made up for: once, however many there
// were.
func (l *Leader) ResetUsage(ctx context.Context, now time.Time) {
	due, is := l.nextReset(now.Location())
	if !is || now.Before(due) {
		return
	}
	period, _ := l.cluster.View().UsageReset()
	_, ok := l.propose(ctx, state.ResetUsage{Period: period, DueMS: due.UnixMilli()})
	if _, since := l.cluster.View().UsageReset(); ok && since >= due.UnixMilli() {
		l.log.Info("all usage is forgotten", "period", period.String(), "due", due)
	}
}

func (l *Leader) nextReset(zone *time.Location) (due time.Time, is bool) {
	period, sinceMS := l.cluster.View().UsageReset()
	return periodAfter(period, time.UnixMilli(sinceMS).In(zone))
}

// periodAfter is the first moment after a time at which a period begins
// (slurm.conf(5), PriorityUsageResetPeriod).
func periodAfter(period policy.ResetPeriod, since time.Time) (time.Time, bool) {
	year, month, day := since.Date()
	switch period {
	case policy.ResetDaily:
		day++
	case policy.ResetWeekly: // on Sunday
		day += 7 - int(since.Weekday())
	case policy.ResetMonthly:
		month, day = month+1, 1
	case policy.ResetQuarterly:
		month, day = month+3-(month-1)%3, 1
	case policy.ResetYearly:
		year, month, day = year+1, time.January, 1
	default:
		return time.Time{}, false
	}
	return time.Date(year, month, day, 0, 0, 0, 0, since.Location()), true
}

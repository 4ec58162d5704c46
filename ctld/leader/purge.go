package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// purgeEvery is how often finished jobs are purged.
const purgeEvery = 5 * time.Second

// purge forgets finished jobs older than the policy's MinJobAge.
func (l *Leader) purge(ctx context.Context) {
	for pause(ctx, purgeEvery) {
		l.Purge(ctx, time.Now())
	}
}

// Purge forgets them once, now being the wall clock's time.
func (l *Leader) Purge(ctx context.Context, now time.Time) {
	age := int64(l.cluster.View().Policy().MinJobAgeS) * 1000
	l.purgeBefore(ctx, now.UnixMilli()-age)
}

// purgeBefore forgets jobs that ended before a time. It stops when the state
// forgets none: MinJobAge may have been raised meanwhile.
func (l *Leader) purgeBefore(ctx context.Context, ms int64) {
	for len(l.cluster.View().FinishedBefore(ms, 1)) > 0 {
		result, ok := l.propose(ctx, state.PurgeJobs{BeforeMS: ms})
		if !ok || len(result.PurgedJobs) == 0 {
			return
		}
	}
}

package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// purgeEvery is how often finished jobs are looked at.
const purgeEvery = 5 * time.Second

// purge forgets finished jobs older than the policy's MinJobAge.
func (l *Leader) purge(ctx context.Context) {
	for pause(ctx, purgeEvery) {
		view := l.cluster.View()
		before := time.Now().UnixMilli() - int64(view.Policy().MinJobAgeS)*1000
		for len(view.FinishedBefore(before, 1)) > 0 {
			if _, ok := l.propose(ctx, state.PurgeJobs{BeforeMS: before}); !ok {
				break
			}
			view = l.cluster.View()
		}
	}
}

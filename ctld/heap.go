package ctld

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How far the heap may grow between two collections. Most of a large heap is a
// queue that stays for days, for which Go's default of 100 % takes the same
// amount again. A small heap would be collected a hundred times a second while
// jobs arrive, which took a sixth of the controller's time.
const (
	heapGrowthPercent = 70
	heapGrowthBytes   = 24 << 20 // at least
)

// paceHeap applies that until ctx ends, unless the environment sets GOGC.
func paceHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := 0
	for {
		metrics.Read(live)
		if percent := heapPercent(live[0].Value.Uint64()); percent != last {
			debug.SetGCPercent(percent)
			last = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heapPercent is GOGC for a heap with that many live bytes. It goes in steps,
// since setting it stops the program for a moment.
func heapPercent(live uint64) int {
	const step, most = 10, 1000
	percent := min(heapGrowthBytes*100/max(live, 1), most)
	return int(max(percent/step*step, heapGrowthPercent))
}

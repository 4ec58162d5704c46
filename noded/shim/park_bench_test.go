package shim

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkPark measures how long it takes from an order to park a job until all of it is
// the owner's, and from an order to resume until the job runs: with memory of its
// own, with many processes, and with a GPU file in its rule. Times are medians.
func BenchmarkPark(b *testing.B) {
	for _, row := range []struct {
		name      string
		megabytes int
		processes int
	}{{"100MB", 100, 1}, {"1000MB", 1000, 1}, {"1000MB-64-processes", 1000, 64}} {
		b.Run(row.name, func(b *testing.B) {
			bed := newBed(b)
			bed.giveDevice(b, screenMajor, screenMinor)
			order := bed.order(fmt.Sprintf(`exec python3 -c '
import os, time
share = bytearray(os.urandom(1 << 20)) * (%d // %d)
for _ in range(%d - 1):
    if os.fork() == 0: break
share = bytearray(share)
while True:
    print("x", flush=True)
    for i in range(0, len(share), 4096): share[i] ^= 1
    time.sleep(0.01)'`, row.megabytes, row.processes, row.processes))
			order.Allocation[0].MemoryBytes = 4 << 30
			s := bed.launch(order)
			eventually(b, "its memory is there", func() bool {
				usage, err := groupOf(s).Usage()
				return err == nil && usage.CurrentMemoryBytes > uint64(row.megabytes)<<20
			})
			var parked, resumed []time.Duration
			number := uint32(1)
			for b.Loop() {
				eventually(b, "it runs", func() bool { f, err := groupOf(s).Frozen(); return err == nil && !f })
				time.Sleep(20 * time.Millisecond)
				s.park(number, time.Minute)
				parked = append(parked, s.saysParked(number, true))
				begin := time.Now()
				s.suspend(number+1, false)
				eventually(b, "it runs", func() bool { f, err := groupOf(s).Frozen(); return err == nil && !f })
				resumed = append(resumed, time.Since(begin))
				number += 2
			}
			s.cancel()
			for unit, all := range map[string][]time.Duration{"ms/park": parked, "ms/resume": resumed} {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, unit)
				b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "most-"+unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

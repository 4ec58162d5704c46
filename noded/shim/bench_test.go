package shim

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkPart measures a part from its order to the first instruction of its
// script, and to its result, beside libcontainer alone with the same settings
// in the same run.
func BenchmarkPart(b *testing.B) {
	bed := newBed(b)
	var firsts, wholes []time.Duration
	for b.Loop() {
		order := bed.order("exit 0")
		order.Spec.StandardOutput = "/dev/null"
		begin := time.Now()
		s := bed.launch(order)
		for {
			if result, err := s.Result(); err == nil {
				wholes = append(wholes, time.Since(begin))
				firsts = append(firsts, time.UnixMilli(result.StartMs).Sub(begin))
				break
			}
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		eventually(b, "the supervisor exits", func() bool { return !s.Alive() })
		must(b, s.Forget())
		b.StartTimer()
	}
	b.StopTimer()
	median := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)/2]
	}
	bare := bareMedian(b, max(len(firsts), 5))
	first, whole := median(firsts), median(wholes)
	b.ReportMetric(float64(first.Microseconds())/1000, "ms/first-instruction")
	b.ReportMetric(float64(whole.Microseconds())/1000, "ms/result")
	b.ReportMetric(float64(bare.Microseconds())/1000, "ms/bare-libcontainer")
	b.ReportMetric(float64(first)/float64(bare), "x/bare")
}

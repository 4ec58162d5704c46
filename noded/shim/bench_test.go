package shim

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkAlloc measures an allocation from its order to the first instruction of its
// script, and to its result. In turn with each allocation it starts one container of
// the same order with libcontainer alone, which translates the system-call
// filter itself, and one process without any container. Times are medians;
// "cpu" is that of every process involved but the caller, from start to
// removal.
func BenchmarkAlloc(b *testing.B) {
	bed := newBed(b)
	alone := bed.startBare()
	var forks, bares, bareCPUs, firsts, wholes, cpus []time.Duration
	next := func() (first, whole, cpu time.Duration) {
		order := bed.order("exit 0")
		order.Spec.StandardOutput = "/dev/null"
		before, begin := cpuTime(unix.RUSAGE_CHILDREN), time.Now()
		s := bed.launch(order)
		for {
			result, err := s.Result()
			if err == nil {
				whole = time.Since(begin)
				// It is told in whole milliseconds, cut off.
				first = time.UnixMilli(result.StartMs).Sub(begin) + time.Millisecond/2
				break
			}
			time.Sleep(time.Millisecond)
		}
		eventually(b, "the supervisor exits", func() bool { return !s.Alive() })
		eventually(b, "the supervisor is reaped", func() bool {
			cpu = cpuTime(unix.RUSAGE_CHILDREN) - before
			return cpu > 0
		})
		must(b, s.Forget())
		return first, whole, cpu
	}
	for b.Loop() {
		first, whole, cpu := next()
		firsts, wholes, cpus = append(firsts, first), append(wholes, whole), append(cpus, cpu)
		order := bed.order("exit 0")
		order.Spec.StandardOutput = "/dev/null"
		took := alone.start(order)
		bares, bareCPUs = append(bares, took.Start), append(bareCPUs, took.CPU)
		begin := time.Now()
		must(b, exec.Command("/bin/true").Run())
		forks = append(forks, time.Since(begin))
	}
	report := func(all []time.Duration, unit string) time.Duration {
		slices.Sort(all)
		median := all[len(all)/2]
		b.ReportMetric(float64(median.Microseconds())/1000, unit)
		return median
	}
	report(forks, "ms/fork-exec")
	bare, bareCPU := report(bares, "ms/bare"), report(bareCPUs, "cpu-ms/bare")
	first, cpu := report(firsts, "ms/first-instruction"), report(cpus, "cpu-ms/alloc")
	report(wholes, "ms/result")
	b.ReportMetric(float64(first)/float64(bare), "x/bare")
	b.ReportMetric(float64(cpu)/float64(bareCPU), "cpu-x/bare")
	b.ReportMetric(0, "ns/op")
}

package state

import "testing"

// BenchmarkPastRun: what the end of a job costs in addition, because history keeps it.
func BenchmarkPastRun(b *testing.B) {
	d := &dialogue{t: &testing.T{}, state: New(), nowMS: 1_000_000}
	for _, line := range []string{"register n1 cpus=4 gpus=2 boot=b1", "submit by=1000 cpus=2 gpus=1", "place 1 n1:0-1:gpu0", "ready 1.1 n1", "wait seconds=100", "ended 1.1 n1 cause=exited code=0"} {
		d.play(line)
	}
	job, _ := d.state.Job(1)
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = len(d.state.pastRun(job))
	}
	b.ReportMetric(float64(size), "bytes")
}

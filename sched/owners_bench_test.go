package sched

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// BenchmarkOwners is a pass in which jobs of an account that owns half of 1,000 full nodes
// have guests parked there; and the same for a cluster where they only could, because
// nobody of that account waits.
func BenchmarkOwners(b *testing.B) {
	for _, c := range []struct {
		name    string
		tasks   uint32
		owner   int32
		request place.Request
	}{
		{"nobody's", 500, 0, place.Request{GPUsPerNode: 1}},
		{"one GPU", 1, 1, place.Request{GPUsPerNode: 1}},
		{"an array of 500", 500, 1, place.Request{GPUsPerNode: 1}},
		{"a gang of 64", 1, 1, place.Request{MinNodes: 64, GPUsPerNode: 8}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := crowded(1000)
			s.Preemption = PreemptionPolicy{}
			s.Owners = [][]place.NodeIndex{s.Partitions[0].Nodes[:500]}
			for i := range s.Running {
				s.Running[i].Suspends, s.Running[i].Parks = true, true
			}
			c.request.MemoryPerCPU = 1 << 30
			s.Shapes = []Shape{{Partitions: []int{0}, Request: c.request}}
			s.Waiting = []Job{{ID: 1_000_000, Tasks: c.tasks, QOS: 1, Owner: c.owner}}
			_, memo := Schedule(s, Memo{})
			chosen := 0
			for b.Loop() {
				plan, _ := Schedule(s, memo)
				chosen = len(plan.Preemptions)
			}
			b.ReportMetric(float64(chosen), "victims/op")
		})
	}
}

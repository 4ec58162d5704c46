package sched

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// BenchmarkPreempt is a pass in which jobs of a higher QOS come to 1,000 nodes
// that are full of jobs of one to four GPUs and some gangs.
func BenchmarkPreempt(b *testing.B) {
	for _, c := range []struct {
		name    string
		tasks   uint32
		request place.Request
	}{
		{"one GPU", 1, place.Request{GPUsPerNode: 1}},
		{"a node", 1, place.Request{GPUsPerNode: 8}},
		{"an array of 500", 500, place.Request{GPUsPerNode: 1}},
		{"a gang of 64", 1, place.Request{MinNodes: 64, GPUsPerNode: 8}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := crowded(1000)
			c.request.MemoryPerCPU = 1 << 30
			s.Shapes = []Shape{{Partitions: []int{0}, Request: c.request}}
			s.Waiting = []Job{{ID: 1_000_000, Tasks: c.tasks, QOS: 1}}
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

func crowded(nodes int) Snapshot {
	s := Snapshot{
		NowMS:      1_000_000_000,
		QOS:        []QOS{{Name: "low"}, {Name: "high", Preempts: []int{0}}},
		Preemption: PreemptionPolicy{Type: PreemptByQOS, Mode: PreemptRequeue},
		Partitions: []Partition{{Name: "main", Up: true, MaxTimeS: Unlimited}},
	}
	for i := range nodes {
		cpus := place.FirstCPUs(64)
		n := place.Node{Name: fmt.Sprintf("n%04d", i), Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 512 << 30, FreeMemory: 512 << 30}
		for d := range 8 {
			n.Devices = append(n.Devices, place.Device{Index: uint32(d), Model: "h200", Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
		}
		s.Nodes = append(s.Nodes, n)
		s.Partitions[0].Nodes = append(s.Partitions[0].Nodes, place.NodeIndex(i))
	}
	for id, on := 1, 0; on < nodes; id++ {
		r := place.Request{GPUsPerNode: uint32(1 + id%4), MemoryPerCPU: 1 << 30, MinNodes: 1 + uint32(id%50/49)*3}
		placement, _, fits := place.Fit(s.Nodes, s.Partitions[0].Nodes[on:min(on+int(r.MinNodes), nodes)], r)
		if !fits {
			r = place.Request{GPUsPerNode: 1, MemoryPerCPU: 1 << 30}
			if placement, _, fits = place.Fit(s.Nodes, s.Partitions[0].Nodes[on:on+1], r); !fits {
				on++
				continue
			}
		}
		place.Take(s.Nodes, placement, false)
		s.Running = append(s.Running, Running{ID: JobID(id), Placement: placement, Requeue: true, StartMS: s.NowMS - int64(id*7919%100_000)*1000})
	}
	return s
}

package sched

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// benchmarkCluster is nodes of 64 CPUs and 8 linked GPUs, and jobs of a number
// of shapes.
func benchmarkCluster(nodes, jobs, shapes int) Snapshot {
	s := Snapshot{Partitions: []Partition{{Name: "main", Up: true, MaxTimeS: Unlimited}}}
	cpus := place.FirstCPUs(64)
	for i := range nodes {
		n := place.Node{
			Name: fmt.Sprintf("n%04d", i), Available: true, CPUs: cpus, FreeCPUs: cpus,
			MemoryBytes: 512 << 30, FreeMemory: 512 << 30,
		}
		for d := range 8 {
			var links []place.DeviceIndex
			for other := range 8 {
				if other != d {
					links = append(links, place.DeviceIndex(other))
				}
			}
			n.Devices = append(n.Devices, place.Device{
				Index: uint32(d), Model: "a100", Healthy: true, Parent: place.WholeDevice,
				Shares: 1, FreeShares: 1, Links: links, NearCPUs: place.FirstCPUs(32),
			})
		}
		s.Nodes = append(s.Nodes, n)
		s.Partitions[0].Nodes = append(s.Partitions[0].Nodes, place.NodeIndex(i))
	}
	for i := range shapes {
		s.Shapes = append(s.Shapes, Shape{Partitions: []int{0}, TimeLimitS: uint32(60 * (i + 1)), Request: place.Request{
			MinNodes: uint32(1 + i%2), GPUsPerNode: uint32(1 + i%8), CPUsPerTask: 4, MemoryPerCPU: 1 << 30, Tasks: uint32(1+i%2) * uint32(1+i/16),
		}})
	}
	for i := range jobs {
		s.Waiting = append(s.Waiting, Job{ID: JobID(i + 1), Shape: i % shapes, FixedPriority: 1 + uint32(i*7919%1000), Tasks: 1})
	}
	return s
}

// full is the cluster after one pass: nothing more starts.
func full(s Snapshot) Snapshot {
	plan, _ := Schedule(s, Memo{})
	started := make(map[JobID]bool)
	for _, start := range plan.Starts {
		place.Take(s.Nodes, start.Placement, false)
		started[start.Job] = true
	}
	waiting := s.Waiting[:0]
	for _, job := range s.Waiting {
		if !started[job.ID] {
			waiting = append(waiting, job)
		}
	}
	s.Waiting = waiting
	return s
}

// BenchmarkFull is the pass that is made again and again on a busy cluster.
func BenchmarkFull(b *testing.B) {
	for _, shapes := range []int{20, 2000} {
		for _, jobs := range []int{10000, 100000} {
			b.Run(fmt.Sprintf("nodes=1000/jobs=%d/shapes=%d", jobs, shapes), func(b *testing.B) {
				s := full(benchmarkCluster(1000, jobs, shapes))
				_, memo := Schedule(s, Memo{})
				for b.Loop() {
					_, memo = Schedule(s, memo)
				}
			})
		}
	}
}

// BenchmarkFill is the pass that fills an empty cluster.
func BenchmarkFill(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		for _, jobs := range []int{10000, 100000} {
			b.Run(fmt.Sprintf("nodes=%d/jobs=%d", nodes, jobs), func(b *testing.B) {
				s := benchmarkCluster(nodes, jobs, 20)
				starts := 0
				for b.Loop() {
					plan, _ := Schedule(s, Memo{})
					starts = len(plan.Starts)
				}
				b.ReportMetric(float64(starts), "starts/op")
			})
		}
	}
}

// BenchmarkEveryShapeUnlike is a queue in which no two jobs ask for the same,
// without a memo: the worst case.
func BenchmarkEveryShapeUnlike(b *testing.B) {
	s := full(benchmarkCluster(1000, 5000, 5000))
	for b.Loop() {
		Schedule(s, Memo{})
	}
}

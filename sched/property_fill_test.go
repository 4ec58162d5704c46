package sched

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// newCrowd is a cluster over time with more jobs than it has room for, of which most can
// be saved and fill holes.
func newCrowd(t *testing.T, seed uint64) *ahead {
	g := newAhead(t, seed)
	r, s := g.w.random, &g.w.snapshot
	s.Nodes, s.Shapes, s.Switches = nil, nil, nil
	partition := Partition{Name: "all", Up: true, MaxTimeS: Unlimited, QOS: -1, FillsHoles: true, PriorityTier: 1}
	for i := range 1 + r.IntN(5) {
		cpus := place.FirstCPUs(8)
		n := place.Node{Name: fmt.Sprintf("n%03d", i), Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 16 << 30, FreeMemory: 16 << 30, TmpOpen: true}
		for d := range 4 * uint32(i%2) {
			n.Devices = append(n.Devices, place.Device{Index: d, Model: "a100", Healthy: true, Parent: place.WholeDevice, Shares: 1, FreeShares: 1})
		}
		s.Nodes, partition.Nodes = append(s.Nodes, n), append(partition.Nodes, place.NodeIndex(i))
	}
	s.Partitions = []Partition{partition}
	for range 12 {
		nodes := 1 + r.Uint32N(2)*r.Uint32N(uint32(len(s.Nodes)))
		request := place.Request{MinNodes: nodes, MaxNodes: nodes, CPUsPerTask: 1 + r.Uint32N(8), MemoryPerCPU: 1 << 30, Exclusive: r.IntN(5) == 0}
		if nodes == 1 && len(s.Nodes) > 1 && r.IntN(3) == 0 {
			request.GPUsPerNode = 1 + r.Uint32N(4)
		}
		s.Shapes = append(s.Shapes, Shape{Partitions: []int{0}, TimeLimitS: 300 << r.IntN(5), Request: request})
	}
	s.Backfill = BackfillPolicy{On: true, PartJobs: 1 + uint32(seed%3), ShortestFirst: seed%2 == 1}
	return g
}

// checkFills: jobs in holes change nothing for others. Without them the same jobs start,
// and the same starts are planned.
func (g *ahead) checkFills(s *Snapshot, plan *Plan) {
	without := *s
	without.Partitions = slices.Clone(s.Partitions)
	for i := range without.Partitions {
		without.Partitions[i].FillsHoles = false
	}
	other, _ := Schedule(without, Memo{})
	starts := slices.DeleteFunc(slices.Clone(plan.Starts), func(start Start) bool { return start.Fills })
	if !slices.EqualFunc(starts, other.Starts, func(a, b Start) bool { return reflect.DeepEqual(a, b) }) {
		g.t.Fatalf("seed %d: with holes filled these start:\n%+v\nand without:\n%+v", g.seed, starts, other.Starts)
	}
	if !reflect.DeepEqual(plan.Promises, other.Promises) {
		g.t.Fatalf("seed %d: with holes filled this is planned:\n%+v\nand without:\n%+v", g.seed, plan.Promises, other.Promises)
	}
	for _, start := range plan.Starts {
		if start.Fills && slices.ContainsFunc(plan.Promises.Planned, func(p Planned) bool { return p.Job == start.Job }) {
			g.t.Fatalf("seed %d: job %d has a planned start, and began in a hole", g.seed, start.Job)
		}
	}
}

// tell has jobs make room as the plan says. Saving them takes any time up to the longest.
func (g *ahead) tell(plan *Plan) {
	s := &g.w.snapshot
	for _, p := range plan.Preemptions {
		at := slices.IndexFunc(s.Running, func(r Running) bool { return r.ID == p.Victim })
		r := &s.Running[at]
		if !r.Fills || r.Ending || p.Mode != PreemptCheckpoint || p.GoneByMS < s.NowMS+r.saveMS() {
			g.t.Fatalf("seed %d: %+v is told %+v", g.seed, r, p)
		}
		r.Ending, r.GoneByMS = true, p.GoneByMS
		g.endMS[r.ID] = p.GoneByMS - g.w.random.Int64N(r.saveMS())
		if g.w.random.IntN(3) == 0 {
			g.endMS[r.ID] = p.GoneByMS
		}
		g.told++
	}
}

// TestHolesAreFilled plays crowded clusters through many passes. What is planned is kept
// there too, though most jobs that begin do so in holes.
func TestHolesAreFilled(t *testing.T) {
	var all ahead
	for seed := range uint64(50) {
		all.play(newCrowd(t, seed), 30)
	}
	t.Logf("%d jobs began in holes, and %d of them made room; of %d planned starts %d were kept", all.fills, all.told, all.planned, all.kept)
	if all.fills < 150 || all.told < 100 || all.kept < 150 {
		t.Error("too few holes are filled")
	}
}

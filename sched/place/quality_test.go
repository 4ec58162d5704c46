package place

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// This file replays random streams of jobs through three rules of placement:
// Fit, the rule that Fit had before it knew networks (the fewest devices left on
// the nodes, then the lowest nodes), and first fit. Jobs start strictly in their
// order, so that what a rule breaks up is paid for by those that need it whole.

// mix is how often jobs ask for 1, 2, 4, 8, 16 or 32 GPUs.
type mix struct {
	name    string
	weights [6]int
}

var mixes = []mix{
	// Jobs of Microsoft's Philly clusters by size (CC-BY-4.0; see "Analysis of
	// Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", 2019).
	{"philly", [6]int{76627, 1818, 1870, 1643, 199, 67}},
	// Each size asks for as many GPUs in all.
	{"even", [6]int{32, 16, 8, 4, 2, 1}},
}

// job of a stream: all its GPUs on one node up to 8, and on whole nodes above.
type streamJob struct {
	arrives, runs int64
	request       Request
	gpus          int
}

func stream(random *rand.Rand, m mix, count int, gpus int, load float64) []streamJob {
	total := 0
	for _, weight := range m.weights {
		total += weight
	}
	jobs, demand := make([]streamJob, count), 0.0
	for i := range jobs {
		at, size := random.IntN(total), 0
		for ; at >= m.weights[size]; size++ {
			at -= m.weights[size]
		}
		j := &jobs[i]
		j.gpus = 1 << size
		j.runs = 10 + int64(random.ExpFloat64()*1000)
		nodes := max(1, j.gpus/8)
		j.request = Request{MinNodes: uint32(nodes), GPUsPerNode: uint32(j.gpus / nodes), MemoryPerNode: 1}
		demand += float64(j.gpus) * float64(j.runs)
	}
	span := int64(demand / float64(gpus) / load)
	for i := range jobs {
		jobs[i].arrives = random.Int64N(span)
	}
	slices.SortFunc(jobs, func(a, b streamJob) int { return cmp.Compare(a.arrives, b.arrives) })
	return jobs
}

// qualityCluster is leaves of 8 nodes with 8 GPUs, which are linked by fours.
func qualityCluster(leaves int) []Node {
	var nodes []Node
	switches := make([]Switch, leaves+1)
	switches[leaves] = Switch{Name: "top", Level: 1}
	for i := range leaves * 8 {
		n := nodeWith(8, islands(8, 4))
		n.Name, n.CPUs = fmt.Sprintf("n%03d", i), FirstCPUs(64)
		n.FreeCPUs = n.CPUs
		nodes = append(nodes, n)
		for _, s := range []int{i / 8, leaves} {
			switches[s].Nodes = append(switches[s].Nodes, NodeIndex(i))
		}
	}
	return Wire(nodes, switches)
}

// rule places a request, or does not.
type rule func(nodes []Node, candidates []NodeIndex, r Request) (Placement, bool)

func rules() map[string]rule {
	byOrder := func(compare func(nodes []Node) func(a, b NodeIndex) int, linked bool) rule {
		return func(nodes []Node, candidates []NodeIndex, r Request) (Placement, bool) {
			var fits []NodeIndex
			for _, index := range candidates {
				if free, _, _ := freeGPUs(&nodes[index], "a100", false); free >= uint64(r.GPUsPerNode) {
					fits = append(fits, index)
				}
			}
			if len(fits) < int(r.MinNodes) {
				return Placement{}, false
			}
			slices.SortStableFunc(fits, compare(nodes))
			chosen := slices.Sorted(slices.Values(fits[:r.MinNodes]))
			var p Placement
			for _, index := range chosen {
				devices, _ := pickDevices(&nodes[index], "a100", int(r.GPUsPerNode), false)
				if !linked {
					free, _ := freeFor(&nodes[index], "a100", 0, false)
					devices = nil
					for _, device := range free[:r.GPUsPerNode] {
						devices = append(devices, Grant{Device: device, Shares: 1})
					}
				}
				p.Allocs = append(p.Allocs, Alloc{Node: index, Devices: devices})
			}
			return p, true
		}
	}
	return map[string]rule{
		"fit": func(nodes []Node, candidates []NodeIndex, r Request) (Placement, bool) {
			p, _, fits := Fit(nodes, candidates, r)
			return p, fits
		},
		"former": byOrder(func(nodes []Node) func(a, b NodeIndex) int {
			return func(a, b NodeIndex) int {
				_, leftA, _ := freeGPUs(&nodes[a], "a100", false)
				_, leftB, _ := freeGPUs(&nodes[b], "a100", false)
				return cmp.Compare(leftA, leftB)
			}
		}, true),
		"first": byOrder(func([]Node) func(a, b NodeIndex) int {
			return func(a, b NodeIndex) int { return int(a - b) }
		}, false),
	}
}

// quality is what a replay comes to.
type quality struct {
	stuck    float64 // share of all GPU time that was idle while the next job would have fitted by count
	wait     float64 // mean, in seconds
	leaves   float64 // of jobs on several nodes: leaf switches, over the fewest it could have been
	unlinked float64 // of pairs of GPUs of a job on a node, up to 4: the share without a link
}

func replay(place rule, leaves int, jobs []streamJob) quality {
	nodes := qualityCluster(leaves)
	var candidates []NodeIndex
	for i := range nodes {
		candidates = append(candidates, NodeIndex(i))
	}
	type ending struct {
		at        int64
		placement Placement
		gpus      int
	}
	var q quality
	var running []ending // latest first
	var now, waited, stuck int64
	free, gangs, gangLeaves, pairs, apart := len(nodes)*8, 0, 0.0, 0, 0
	for next := 0; next < len(jobs); {
		job := &jobs[next]
		now = max(now, job.arrives)
		for len(running) > 0 && running[len(running)-1].at <= now {
			over := running[len(running)-1]
			running = running[:len(running)-1]
			giveBack(nodes, over.placement)
			free += over.gpus
		}
		if p, fits := place(nodes, candidates, job.request); fits {
			Take(nodes, p, false)
			free -= job.gpus
			waited += now - job.arrives
			end := ending{now + job.runs, p, job.gpus}
			at, _ := slices.BinarySearchFunc(running, end, func(a, b ending) int { return cmp.Compare(b.at, a.at) })
			running = slices.Insert(running, at, end)
			if len(p.Allocs) > 1 {
				gangs++
				gangLeaves += float64(leavesUnder(nodes, p)) / float64((len(p.Allocs)+7)/8)
			}
			if job.gpus > 1 && job.gpus <= 4 {
				linked, all := linkedPairs(&nodes[p.Allocs[0].Node], p.Allocs[0].Devices)
				pairs, apart = pairs+all, apart+all-linked
			}
			next++
			continue
		}
		then := running[len(running)-1].at
		if free >= job.gpus {
			stuck += (then - now) * int64(free)
		}
		now = then
	}
	q.stuck = float64(stuck) / float64(now*int64(len(nodes)*8))
	q.wait = float64(waited) / float64(len(jobs))
	q.leaves = gangLeaves / float64(max(gangs, 1))
	q.unlinked = float64(apart) / float64(max(pairs, 1))
	return q
}

func giveBack(nodes []Node, p Placement) {
	for _, alloc := range p.Allocs {
		n := &nodes[alloc.Node]
		n.FreeCPUs, n.FreeMemory = n.FreeCPUs.Union(alloc.CPUs), n.FreeMemory+alloc.MemoryBytes
		n.Devices = slices.Clone(n.Devices)
		for _, grant := range alloc.Devices {
			n.Devices[grant.Device].FreeShares += grant.Shares
		}
	}
}

func leavesUnder(nodes []Node, p Placement) int {
	leaves := make(map[*Switch]bool)
	for _, alloc := range p.Allocs {
		leaves[nodes[alloc.Node].leaf()] = true
	}
	return len(leaves)
}

func linkedPairs(n *Node, grants []Grant) (linked, all int) {
	for i, grant := range grants {
		for _, other := range grants[:i] {
			if slices.Contains(n.Devices[grant.Device].Links, other.Device) {
				linked++
			}
		}
	}
	return linked, len(grants) * (len(grants) - 1) / 2
}

// BenchmarkQuality prints what each rule comes to, and Fit's in hundredths of
// the others'.
func BenchmarkQuality(b *testing.B) {
	for _, m := range mixes {
		for _, load := range []float64{0.7, 0.9} {
			b.Run(fmt.Sprintf("%s/load=%g", m.name, load), func(b *testing.B) {
				all := make(map[string]quality)
				for b.Loop() {
					for name, rule := range rules() {
						all[name] = replay(rule, 4, stream(rand.New(rand.NewPCG(1, 2)), m, 4000, 4*64, load))
					}
				}
				for name, q := range all {
					b.ReportMetric(q.stuck*100, name+"-stuck-%")
					b.ReportMetric(q.wait, name+"-wait-s")
					b.ReportMetric(q.leaves, name+"-leaves")
					b.ReportMetric(q.unlinked*100, name+"-unlinked-%")
				}
				for _, other := range []string{"former", "first"} {
					if all[other].stuck > 0 {
						b.ReportMetric(all["fit"].stuck/all[other].stuck, "stuck-to-"+other)
					}
					b.ReportMetric(all["fit"].leaves/all[other].leaves, "leaves-to-"+other)
				}
			})
		}
	}
}

// TestPlacementIsNoWorseThanBefore: over several streams gangs are on fewer
// leaf switches than by the former rule and by first fit, and fewer GPUs are
// idle for being scattered than by first fit.
func TestPlacementIsNoWorseThanBefore(t *testing.T) {
	sums := make(map[string]quality)
	for seed := range uint64(4) {
		for name, rule := range rules() {
			q := replay(rule, 4, stream(rand.New(rand.NewPCG(seed, 3)), mixes[1], 1000, 4*64, 0.9))
			sum := sums[name]
			sum.stuck, sum.leaves, sum.unlinked = sum.stuck+q.stuck, sum.leaves+q.leaves, sum.unlinked+q.unlinked
			sums[name] = sum
		}
	}
	fit, former, first := sums["fit"], sums["former"], sums["first"]
	t.Logf("fit %+v, former %+v, first %+v", fit, former, first)
	if fit.leaves >= former.leaves || fit.leaves >= first.leaves || fit.stuck >= first.stuck || fit.unlinked > former.unlinked {
		t.Error("placement is worse than it was")
	}
}

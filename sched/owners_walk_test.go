package sched

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// ownedSeeds is from which seed on the nodes of a stage have owners.
const ownedSeeds = 600

// own gives nodes of a stage owners. On some that is the only way of preemption.
func (g *stage) own() {
	g.addOwners(g.random)
	g.Preemption.GuestExemptTimeS = uint32(g.seed/8%2) * 20
	if g.seed/4%3 == 0 {
		g.Preemption.Type, g.Preemption.Mode = PreemptNone, PreemptOff
	}
}

// checkOwn: a job makes room for an owner's only as a guest on nodes of the owner, after
// its time without disturbance, and the room is there.
func (g *stage) checkOwn(p *Preemption, victim *Running) {
	job := g.submitted[p.For]
	guest := slices.ContainsFunc(victim.Placement.Allocs, func(alloc place.Alloc) bool {
		return slices.Contains(p.Choice.Nodes, alloc.Node) && g.owns(job.Owner, alloc.Node) && !g.owns(victim.Owner, alloc.Node)
	})
	undisturbed := g.NowMS - max(victim.StartMS, victim.ContinuedMS)
	if job.Owner == 0 || !guest || undisturbed < int64(g.Preemption.GuestExemptTimeS)*1000 || victim.Suspended || victim.Ending {
		g.t.Fatalf("seed %d: job %d has to leave for job %d, where it is no guest of the owner, or too soon: %+v", g.seed, p.Victim, p.For, victim)
	}
	for _, node := range p.Choice.Nodes {
		if !g.owns(job.Owner, node) {
			g.t.Fatalf("seed %d: guests leave for job %d, which is to start on node %d that is not its own", g.seed, p.For, node)
		}
	}
}

package sched

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// storm lets something happen that moves planned starts: a node fails or is back, is
// reserved or taken by its owner, a job outlasts its time, or one of higher priority comes.
func (g *ahead) storm(id JobID) {
	r, s := g.w.random, &g.w.snapshot
	s.Nodes = slices.Clone(s.Nodes)
	node := place.NodeIndex(r.IntN(len(s.Nodes)))
	switch r.IntN(6) {
	case 0:
		s.Nodes[node].Available = false
	case 1:
		s.Nodes[node].Available = true
	case 2:
		c := Closed{Node: node, FromMS: s.NowMS, ToMS: s.NowMS + 3_600_000, Starts: r.IntN(2) == 0, Why: ClosedBy(r.IntN(3))}
		s.Shapes = slices.Clone(s.Shapes)
		for i := range s.Shapes {
			s.Shapes[i].Closed = append(slices.Clone(s.Shapes[i].Closed), c)
			slices.SortStableFunc(s.Shapes[i].Closed, func(a, b Closed) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.FromMS, b.FromMS)) })
		}
	case 3:
		if len(s.Running) > 0 {
			at := r.IntN(len(s.Running))
			g.endMS[s.Running[at].ID] += 7_200_000
		}
	case 4:
		g.submit(id)
		job := &s.Waiting[len(s.Waiting)-1]
		job.FixedPriority = 1<<31 + 1
		g.jobs[id] = *job
	}
}

// checkMoves: a start that is planned later than it was, or no longer, has a cause, and
// that is what happened.
func (g *ahead) checkMoves(before []Planned, plan *Plan) {
	s, old := &g.w.snapshot, firstStarts(before)
	now := firstStarts(plan.Promises.Planned)
	for _, job := range slices.Sorted(maps.Keys(old)) {
		was := old[job]
		waiting := slices.IndexFunc(s.Waiting, func(j Job) bool { return j.ID == job })
		if waiting < 0 || slices.ContainsFunc(plan.Starts, func(start Start) bool { return start.Job == job }) {
			continue
		}
		var moved Moved
		if next := now[job]; next != nil {
			if next.StartMS <= was.StartMS {
				continue
			}
			moved = next.Moved
		} else {
			lost := slices.IndexFunc(plan.Promises.Lost, func(l Lost) bool { return l.Job == job })
			if lost < 0 {
				reason := slices.IndexFunc(plan.Reasons, func(r Reason) bool { return r.Job == job })
				if code := plan.Reasons[reason].Code; code == ReasonPriority || code == ReasonResources {
					g.t.Fatalf("seed %d: job %d waits for %v, and is not planned any more: nobody says why", g.seed, job, code)
				}
				continue
			}
			moved = plan.Promises.Lost[lost].Moved
		}
		g.moved[moved.By]++
		if moved.FromMS != was.StartMS || !g.isTrue(s.Waiting[waiting], moved) {
			g.t.Fatalf("seed %d: job %d was planned for %d: %+v, now %d: %+v", g.seed, job, was.StartMS, was, s.NowMS, moved)
		}
	}
}

// isTrue reports whether that is what happened.
func (g *ahead) isTrue(job Job, moved Moved) bool {
	s := &g.w.snapshot
	node := slices.IndexFunc(s.Nodes, func(n place.Node) bool { return n.Name == moved.Node })
	running := slices.IndexFunc(s.Running, func(r Running) bool { return r.ID == moved.Job })
	switch moved.By {
	case MovedByPriority:
		before := func(j Job) bool {
			return cmp.Or(cmp.Compare(j.FixedPriority, job.FixedPriority), cmp.Compare(job.ID, j.ID)) >= 0
		}
		return before(g.jobs[moved.Job])
	case MovedByNode:
		return !s.Nodes[node].Available
	case MovedByJob:
		return running >= 0
	case MovedByLimits:
		return g.guesses
	case MovedByReservation, MovedByOwner, MovedByHabit:
		return slices.ContainsFunc(s.Shapes[job.Shape].closedOn(place.NodeIndex(node)), func(c Closed) bool { return c.Why.moves() == moved.By })
	}
	return false
}

// TestMovesAreNamed plays clusters in which things happen.
func TestMovesAreNamed(t *testing.T) {
	moved := map[MovedBy]int{}
	for seed := range uint64(200) {
		g := newAhead(t, seed)
		g.weather, g.moved = true, moved
		id := JobID(1)
		for range 12 {
			g.submit(id)
			id++
		}
		for range 25 {
			g.pass()
			for range g.w.random.IntN(3) {
				g.submit(id)
				id++
			}
			if !g.advance() {
				break
			}
			g.storm(id)
			id++
		}
	}
	t.Logf("planned starts that moved, by cause: %v", moved)
	for by := MovedByPriority; by < MovedByPolicy; by++ {
		if moved[by] < 3 && (by != MovedByLimits || moved[by] == 0) { // most who outlast a guess are named
			t.Errorf("the clusters are too tame: cause %d was seen %d times", by, moved[by])
		}
	}
}

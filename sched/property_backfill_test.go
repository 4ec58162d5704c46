package sched

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// ahead is a random cluster over time: jobs come, start as planned and end, mostly before
// their time limits. Nothing fails, and nobody's priority changes.
type ahead struct {
	t     *testing.T
	seed  uint64
	w     *world
	memo  Memo
	jobs  map[JobID]Job
	endMS map[JobID]int64

	planned, kept, early, filled, opened int
	guesses                              bool  // jobs are planned for less than they may run
	sure                                 int   // planned starts that no guess moves
	shortened                            int   // jobs that began with less than their time limits
	fills, told                          int   // jobs that began in holes, and those that made room again
	nextMS                               int64 // when the last plan asks for a pass
	weather                              bool  // what moves planned starts happens
	moved                                map[MovedBy]int
}

func newAhead(t *testing.T, seed uint64) *ahead {
	g := &ahead{t: t, seed: seed, w: newWorld(seed, 1+int(seed%9), 0), jobs: map[JobID]Job{}, endMS: map[JobID]int64{}}
	s := &g.w.snapshot
	s.Accounting, s.Owners, s.QOS, s.Associations, s.Running = AccountingPolicy{}, nil, nil, nil, nil
	s.TRES = []string{"billing", "cpu", "gres/gpu", "license/matlab", "mem", "node"}
	s.Licenses = []License{{Name: "matlab", Total: 3}}
	s.Backfill = BackfillPolicy{On: true, PartJobs: uint32(seed % 4), MaxJobs: uint32(seed / 4 % 3 * 7), ArrayTasks: uint32(seed / 12 % 3), ShortestFirst: seed/36%2 == 1}
	s.Priority = PriorityPolicy{}
	g.guesses = seed%7 == 3
	s.Backfill.FirstByLimits = g.guesses
	for i := range s.Nodes {
		s.Nodes[i] = place.Idle(s.Nodes[i], false)
	}
	for i := range s.Partitions {
		s.Partitions[i].QOS, s.Partitions[i].PriorityTier, s.Partitions[i].BillingWeights = -1, 1, nil
	}
	for i := range s.Shapes {
		s.Shapes[i].Request.Switches = 0 // its wait would change the shape
		if g.w.random.IntN(12) == 0 {
			s.Shapes[i].TimeLimitS = Unlimited
		}
		if seed%2 == 1 {
			s.Shapes[i].Closed = g.closed()
		}
		if g.guesses && i%4 > 0 && s.Shapes[i].TimeLimitS != Unlimited {
			s.Shapes[i].PlannedS = s.Shapes[i].TimeLimitS / 20 * uint32(i%4)
		}
		if shape := &s.Shapes[i]; seed%3 > 0 && i%2 == 0 {
			shape.TimeMinS = min(shape.TimeLimitS, 9000) / 4 * uint32(1+i%3)
		}
	}
	return g
}

// closed are times in which some nodes are not for a shape: one reservation or more, hours
// of an owner, and a moment that no job runs through.
func (g *ahead) closed() []Closed {
	r, s := g.w.random, &g.w.snapshot
	var closed []Closed
	for node := range s.Nodes {
		at := s.NowMS
		for range r.IntN(4) {
			at += r.Int64N(4) * 1_800_000
			c := Closed{Node: place.NodeIndex(node), FromMS: at, ToMS: at + r.Int64N(3)*1_800_000, Starts: r.IntN(2) == 0}
			if at = c.ToMS; r.IntN(16) == 0 {
				c.ToMS = profile.Forever
			}
			closed = append(closed, c)
		}
	}
	return closed
}

func (g *ahead) submit(id JobID) {
	r := g.w.random
	job := Job{ID: id, Tasks: 1 + uint32(r.IntN(8)/6), Shape: r.IntN(len(g.w.snapshot.Shapes)), Association: -1, QOS: -1, UID: 1 + r.Uint32N(3)}
	if r.IntN(5) == 0 {
		job.Licenses = []LicenseCount{{0, 1 + r.Uint32N(2)}}
	}
	if g.w.snapshot.Partitions[0].FillsHoles && r.IntN(4) > 0 {
		job.SaveS, job.RestoreS = 1+r.Uint32N(40), r.Uint32N(20)
	}
	g.jobs[id] = job
	g.w.snapshot.Waiting = append(g.w.snapshot.Waiting, job)
}

// pass plans, checks the plan and does what it says.
func (g *ahead) pass() {
	s := &g.w.snapshot
	given := *s
	given.Nodes, given.Waiting, given.Running = slices.Clone(s.Nodes), slices.Clone(s.Waiting), slices.Clone(s.Running)
	plan, _ := Schedule(given, Memo{})
	var again Plan
	if again, g.memo = Schedule(given, g.memo); !reflect.DeepEqual(plan, again) {
		g.t.Fatalf("seed %d: the memo gives another plan:\n%+v\n%+v", g.seed, plan, again)
	}
	given.Waiting = slices.Clone(given.Waiting)
	g.w.random.Shuffle(len(given.Waiting), func(i, j int) { given.Waiting[i], given.Waiting[j] = given.Waiting[j], given.Waiting[i] })
	again, _ = Schedule(given, Memo{})
	if again.Priorities = inOrderOf(s, &given, again.Priorities); !reflect.DeepEqual(plan, again) {
		g.t.Fatalf("seed %d: another order of the same jobs gives another plan", g.seed)
	}
	checkPlan(g.t, s, plan)
	g.checkFills(s, &plan)
	g.nextMS = plan.NextMS
	before := slices.Clone(s.Promises.Planned)
	for i := range plan.Starts {
		g.start(&plan.Starts[i], &plan)
	}
	g.tell(&plan)
	g.checkRoom(plan.Promises.Planned, false)
	if g.guesses {
		g.checkRoom(slices.DeleteFunc(slices.Clone(plan.Promises.Planned), func(p Planned) bool { return !p.Sure }), true)
	}
	switch {
	case g.weather:
		g.checkMoves(before, &plan)
	case len(given.Running) > 0: // on an idle cluster nothing is waited for
		g.checkPromises(before, &plan)
	}
	s.Promises = plan.Promises
}

func (g *ahead) start(start *Start, plan *Plan) {
	s, job := &g.w.snapshot, g.jobs[start.Job]
	shape := g.shapeOf(job, start.Partition, start.LimitS)
	at := slices.IndexFunc(s.Waiting, func(j Job) bool { return j.ID == start.Job })
	for i := range s.Waiting[:at] {
		if slices.ContainsFunc(plan.Promises.Planned, func(p Planned) bool { return p.Job == s.Waiting[i].ID }) {
			g.filled++
			break
		}
	}
	if s.Waiting[at].Tasks--; s.Waiting[at].Tasks == 0 {
		s.Waiting = slices.Delete(slices.Clone(s.Waiting), at, at+1)
	}
	place.Take(s.Nodes, start.Placement, shape.Request.Exclusive)
	g.checkOpen(start.Job, shape, s.NowMS, start.Placement)
	id := JobID(1000 + len(g.endMS)) // tasks run under numbers of their own
	limitS := int64(min(shape.TimeLimitS, 9000))
	g.endMS[id] = s.NowMS + 1000*(1+g.w.random.Int64N(limitS))
	if g.w.random.IntN(3) == 0 {
		g.endMS[id] = s.NowMS + limitS*1000
	}
	g.jobs[id] = job
	if start.Fills {
		g.fills++
	}
	if start.LimitS != 0 {
		g.shortened++
	}
	var plannedEndMS int64
	if g.guesses && shape.PlannedS != 0 {
		plannedEndMS = s.NowMS + shape.spanMS()
	}
	s.Running = append(s.Running, Running{
		PlannedEndMS: plannedEndMS,
		Fills:        start.Fills, SaveS: job.SaveS, Saves: job.SaveS > 0,
		ID: id, StartMS: s.NowMS, TimeLimitS: shape.TimeLimitS, Placement: start.Placement, Partition: start.Partition,
		Exclusive: shape.Request.Exclusive, Licenses: job.Licenses, Association: -1, QOS: -1, UID: job.UID,
	})
}

// shapeOf is the shape of a job as it is in a partition, with a limit that was chosen for it;
// 0 = its own.
func (g *ahead) shapeOf(job Job, partition int, limitS uint32) *Shape {
	s := &g.w.snapshot
	shape := &s.Shapes[job.Shape]
	if limitS != 0 {
		if !shape.shortens() || limitS < shape.TimeMinS || limitS >= shape.TimeLimitS {
			g.t.Fatalf("seed %d: a limit of %d is chosen for job %d, which may have %d to %d", g.seed, limitS, job.ID, shape.TimeMinS, shape.TimeLimitS)
		}
		shape = shape.within(limitS)
	}
	return s.Partitions[partition].shaped(shape)
}

// checkOpen: no job begins on a node that is closed to it then.
func (g *ahead) checkOpen(job JobID, shape *Shape, atMS int64, placement place.Placement) {
	for _, alloc := range placement.Allocs {
		if by := shape.closedAt(alloc.Node, atMS); by != nil {
			g.t.Fatalf("seed %d: job %d begins at %d on node %d, which is closed to it: %+v", g.seed, job, atMS, alloc.Node, *by)
		}
	}
}

// checkRoom: at no time do running jobs and planned ones have more of a node, or of a
// license, than there is: if they end when they are planned to, or by their limits.
func (g *ahead) checkRoom(planned []Planned, byLimits bool) {
	s := &g.w.snapshot
	for _, moment := range planned {
		rooms := make([]place.Room, len(s.Nodes))
		for i := range s.Nodes {
			sharing := 0
			for _, r := range s.Running {
				sharing += len(slices.DeleteFunc(slices.Clone(r.Placement.Allocs), func(a place.Alloc) bool { return int(a.Node) != i }))
			}
			rooms[i] = s.Nodes[i].Room(sharing)
		}
		licenses := int64(s.Licenses[0].Total)
		use := func(placement place.Placement, exclusive bool, sign int64) {
			for _, alloc := range placement.Allocs {
				for kind, amount := range s.Nodes[alloc.Node].RoomOf(&alloc, exclusive, true) {
					rooms[alloc.Node][kind] += sign * amount
				}
			}
		}
		count := func(of []LicenseCount) {
			for _, license := range of {
				licenses -= int64(license.Count)
			}
		}
		for _, r := range s.Running {
			over := r.TimeLimitS != Unlimited && r.StartMS+int64(r.TimeLimitS)*1000 <= moment.StartMS
			if r.PlannedEndMS != 0 && !byLimits {
				over = r.PlannedEndMS <= moment.StartMS
			}
			if over || r.Fills && s.NowMS+r.saveMS() <= moment.StartMS || r.Ending && r.GoneByMS <= moment.StartMS {
				use(r.Placement, r.Exclusive, 1)
			} else {
				count(r.Licenses)
			}
		}
		for _, p := range planned {
			shape := g.shapeOf(g.jobs[p.Job], p.Partition, p.LimitS)
			span := shape.spanMS()
			if byLimits {
				span = shape.longestMS()
			}
			if p.StartMS <= moment.StartMS && after(p.StartMS, span) > moment.StartMS {
				use(p.Placement, shape.Request.Exclusive, -1)
				count(g.jobs[p.Job].Licenses)
			}
		}
		for i, room := range rooms {
			if slices.Min(room) < 0 {
				g.t.Fatalf("seed %d: when job %d is to start, more of node %d is planned than there is: %v\n%+v", g.seed, moment.Job, i, room, planned)
			}
		}
		if licenses < 0 {
			g.t.Fatalf("seed %d: when job %d is to start, more licenses are planned than there are", g.seed, moment.Job)
		}
	}
}

// checkPromises: what was planned starts by then, and is not planned later.
func (g *ahead) checkPromises(before []Planned, plan *Plan) {
	s := &g.w.snapshot
	now := map[JobID]int64{}
	for _, p := range plan.Promises.Planned {
		if first, is := now[p.Job]; !is || p.StartMS < first {
			now[p.Job] = p.StartMS
		}
		if p.StartMS <= s.NowMS {
			g.t.Fatalf("seed %d: job %d is planned for %d, which is not later than now", g.seed, p.Job, p.StartMS)
		}
		g.planned++
		shape := g.shapeOf(g.jobs[p.Job], p.Partition, p.LimitS)
		g.checkOpen(p.Job, shape, p.StartMS, p.Placement)
		if slices.ContainsFunc(p.Placement.Allocs, func(a place.Alloc) bool { return shape.closedAt(a.Node, s.NowMS) != nil }) {
			g.opened++
		}
	}
	seen := map[JobID]bool{}
	for _, p := range before {
		if p.Sure {
			g.sure++
		}
		if seen[p.Job] {
			continue
		}
		seen[p.Job] = true
		started := slices.ContainsFunc(plan.Starts, func(start Start) bool { return start.Job == p.Job })
		waits := slices.ContainsFunc(s.Waiting, func(j Job) bool { return j.ID == p.Job })
		next, is := now[p.Job]
		switch {
		case started || !waits:
			g.kept++
		case g.guesses && !p.Sure: // a guess that was wrong may move it
		case !is:
			g.t.Fatalf("seed %d: job %d was planned for %d, and now %d is not planned", g.seed, p.Job, p.StartMS, s.NowMS)
		case next > p.StartMS:
			g.t.Fatalf("seed %d: job %d was planned for %d, and is now planned for %d", g.seed, p.Job, p.StartMS, next)
		case next < p.StartMS:
			g.early++
		}
	}
}

// advance goes to when the next job ends, or half a minute on when one comes.
func (g *ahead) advance() bool {
	s := &g.w.snapshot
	next := int64(math.MaxInt64)
	for _, r := range s.Running {
		next = min(next, g.endMS[r.ID])
		if r.PlannedEndMS > s.NowMS {
			next = min(next, r.PlannedEndMS)
		}
	}
	if g.nextMS > s.NowMS {
		next = min(next, g.nextMS)
	}
	if next == math.MaxInt64 {
		return false
	}
	if g.nextMS > 0 {
		next = min(next, max(g.nextMS, s.NowMS+1))
	}
	s.NowMS = next
	for i := 0; i < len(s.Running); {
		r := s.Running[i]
		if g.endMS[r.ID] > next {
			if r.PlannedEndMS != 0 && r.PlannedEndMS <= next { // it is planned for longer now
				s.Running = slices.Clone(s.Running)
				s.Running[i].PlannedEndMS = min(next+(next-r.StartMS)/2+1000, r.StartMS+int64(r.TimeLimitS)*1000)
			}
			i++
			continue
		}
		s.Running = slices.Delete(slices.Clone(s.Running), i, i+1)
		if r.Ending { // it waits, and resumes from its image
			job := g.jobs[r.ID]
			job.ID, job.Tasks, job.Image = r.ID, 1, 1
			g.jobs[r.ID], s.Waiting = job, append(slices.Clone(s.Waiting), job)
		}
		place.Release(s.Nodes, r.Placement, func(node place.NodeIndex) []place.Stay {
			var staying []place.Stay
			for _, other := range s.Running {
				if slices.ContainsFunc(other.Placement.Allocs, func(a place.Alloc) bool { return a.Node == node }) {
					staying = append(staying, place.Stay{User: other.Placement.User, UserOnly: other.Placement.UserOnly, Exclusive: other.Exclusive})
				}
			}
			return staying
		})
	}
	return true
}

// TestPlannedStartsAreKept plays clusters through many passes.
func TestPlannedStartsAreKept(t *testing.T) {
	var all ahead
	for seed := range uint64(400) {
		all.play(newAhead(t, seed), 12)
	}
	t.Logf("%d planned starts, %d kept, %d became earlier, %d jobs started before others that were planned, %d on nodes that were closed", all.planned, all.kept, all.early, all.filled, all.opened)
	t.Logf("%d jobs began with less than their time limits, %d planned starts hold whatever is guessed", all.shortened, all.sure)
	if all.shortened < 100 || all.sure < 100 || all.planned < 1000 || all.kept < 300 || all.early < 100 || all.filled < 300 || all.opened < 100 {
		t.Error("the clusters are too tame")
	}
}

// play plays a cluster that begins with some jobs, and adds up what happened.
func (a *ahead) play(g *ahead, jobs int) {
	id := JobID(1)
	for range jobs {
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
	}
	a.planned, a.kept, a.early, a.filled = a.planned+g.planned, a.kept+g.kept, a.early+g.early, a.filled+g.filled
	a.shortened, a.sure = a.shortened+g.shortened, a.sure+g.sure
	a.fills, a.told, a.opened = a.fills+g.fills, a.told+g.told, a.opened+g.opened
}

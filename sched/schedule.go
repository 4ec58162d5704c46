package sched

import (
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/profile"
)

// Schedule makes a plan. memo is what the pass before left, or the zero Memo. Two passes
// must not use one at the same time: it has memory that one leaves to the next.
func Schedule(s Snapshot, memo Memo) (Plan, Memo) {
	s, nextMS := expandShapes(s)
	s = withOwnParts(s)
	priorities := newPriorities(&s)
	p := planned(&s, memo, priorities)
	if len(p.starts) == 0 && len(s.Running) == 0 && len(s.Promises.Planned) > 0 && !p.waitsForTime() {
		// Nothing ends that would bring another pass, so what was planned is not waited
		// for if something can start without it.
		second := s
		second.Promises = Promises{}
		if again := planned(&second, memo, priorities); len(again.starts) > 0 {
			p.release()
			p = again
			p.promised.voidBy = Moved{By: MovedByPriority, Job: p.starts[0].Job}
		}
	}
	promises := p.promises(&s.Promises)
	plan := Plan{
		Starts: p.starts, Preemptions: p.preemptions, Continues: p.continues, Priorities: priorities.ofFirst(),
		NextMS: sooner(sooner(nextMS, p.nextMS), sooner(p.beginsMS, p.nextPlanned())), Reasons: p.allReasons(), Promises: promises,
	}
	plan.ofWholes(&s)
	next := p.feasibility.memo()
	next.scratch = p.release()
	return plan, next
}

// planned is a pass that is over. It is made again for jobs on their own nodes that
// deferred in vain.
func planned(s *Snapshot, memo Memo, priorities *priorities) *pass {
	var insists []bool
	p := newPass(s, memo)
	p.run(priorities)
	for range maxInsists {
		if insists = p.inVain(insists); insists == nil {
			break
		}
		p.release()
		p = newPass(s, memo)
		p.insists = insists
		p.run(priorities)
	}
	return p
}

// run gives all jobs their turns.
func (p *pass) run(priorities *priorities) {
	entries := p.order(priorities)
	p.suspended = newContinuing(p, entries)
	p.enterPromises(priorities)
	at := 0
	for turns := range turns(entries) {
		p.suspended.before(p, at)
		switch {
		case len(turns) == 1 && (p.skips(turns[0], entries[:at]) || p.waitsLike(turns[0])):
		case p.comesLater(turns):
			p.later = append(p.later, turns)
			p.noteBehind(turns[0]) // what is planned from here on, it leaves as it is
		default:
			p.consider(turns)
			p.noteBehind(turns[0])
		}
		at += len(turns)
	}
	p.tellAllSkipped()
	p.suspended.before(p, len(entries))
	p.shortestFirst()
	p.makeFillersLeave()
	p.fillHoles(entries)
}

// pass is the state of one call of Schedule. What is free only shrinks while
// it lasts, so what did not fit once does not fit later.
type pass struct {
	*Snapshot
	scratch     *scratch     // the memory of its lists
	nodes       []place.Node // with what is free after the starts so far
	closedBy    []JobID      // by node: the job that the node is kept for, 0 = none
	kinds       *place.Kinds // of nodes; nil until a job looks for some
	closings    int          // how often nodes were closed
	partitions  []partitionPass
	trials      [][]trial // by shape and choice of partition
	feasibility *feasibility
	limits      *limits  // nil = there are none
	left        []uint32 // tasks not started, by position in Waiting
	reasons     []Reason // by position in Waiting
	shapeOf     []int32  // likewise, as in Job
	ascending   bool     // the jobs in Waiting are in the order of their numbers
	beginsMS    int64    // when the next of these becomes able to start by time alone; 0 = none does
	starts      []Start
	stopped     []bool // room for consider

	room        *room // as it will be; nil until a job looks for some
	preemptions []Preemption
	continues   []JobID
	suspended   *continuing
	withheld    []place.Alloc // CPUs and devices that suspended jobs get back, now or later
	nextMS      int64
	future      *future // nil until something is planned
	promised    promised
	lifts       int    // how often something was taken off the future
	plans       []plan // in the order in which they were made
	plannedJobs uint32
	behind      []uint32 // by position in Waiting: 1 + how many starts were planned at its turn; nil without backfill
	hasPlan     []bool   // likewise: a start of it is planned
	alike       bool     // jobs of a shape wait for the same: see waitsLike
	like        like
	started     []*Job    // by position in starts
	alone       []bool    // likewise: it has its nodes alone
	spans       []terms   // likewise: for how long it has them
	later       [][]entry // turns of jobs that come when all others have had theirs
	planning    bool      // starts are planned for jobs that have their turn
	// Room for search and fitNow.
	changes  []change
	holes    []profile.Interval
	times    []int64
	narrowed []place.Node
	roomFor  place.Room
	waits    []entry // room for consider
	// By position in Waiting, of jobs on their own nodes: those that have no guests
	// parked because they seem to fit elsewhere, and those that do not wait for that.
	defers, insists []bool
}

// partitionPass is what has happened in one partition.
type partitionPass struct {
	blocker  JobID             // the job that waits for resources here and lets no other before it
	first    JobID             // the first that waits for resources here
	planned  planCounts        // for how many jobs a start is planned here
	standing planCounts        // for how many the last plan did, and they had no turn yet
	open     []place.NodeIndex // nodes not closed, as of the first closings
	closings int
	index    *place.Index // of these nodes; nil = not made yet
}

// trial is what is known of a shape in a partition.
type trial struct {
	shape   *Shape // as it is in this partition now
	ahead   *Shape // as it is planned: with the nodes that are closed to it now
	failed  bool   // it did not fit in what is free and open
	lifts   int    // of the pass, when it did not
	blocker JobID  // the first job of this shape that waits for resources
	ruled   bool
	rule    Reason // for which the partition does not take it at all
	noHole  int64  // milliseconds for which it did not fit in a hole; 0 = it was not tried
	judged  bool
	verdict verdict
	whole   *trial // with the whole limit of jobs that may start with less; nil = they may not
}

func newPass(s *Snapshot, memo Memo) *pass {
	memory := memo.memory()
	p := &pass{
		Snapshot:    s,
		scratch:     memory,
		nodes:       append(sized(&memory.nodes, len(s.Nodes))[:0], s.Nodes...),
		closedBy:    make([]JobID, len(s.Nodes)),
		partitions:  make([]partitionPass, len(s.Partitions)),
		trials:      make([][]trial, len(s.Shapes)),
		feasibility: newFeasibility(s, memo),
		limits:      newLimits(s),
		left:        zeros(&memory.left, len(s.Waiting)),
		reasons:     make([]Reason, len(s.Waiting)),
		shapeOf:     zeros(&memory.shapeOf, len(s.Waiting)),
		planning:    s.Backfill.On,
	}
	p.alike, p.like = p.newAlike(), like{round: 1, of: make([]likeReason, len(s.Shapes))}
	if s.Backfill.On {
		p.behind, p.hasPlan = zeros(&memory.behind, len(s.Waiting)), zeros(&memory.hasPlan, len(s.Waiting))
	}
	for i := range p.partitions {
		p.partitions[i].open = s.Partitions[i].Nodes
	}
	for i := range p.trials {
		p.trials[i] = make([]trial, len(s.Shapes[i].Partitions))
		for choice, partition := range s.Shapes[i].Partitions {
			p.trials[i][choice] = s.tried(&s.Shapes[i], partition)
		}
	}
	return p
}

// enter is a job at the beginning of a pass. It reports whether the job may start if there is
// room; another one gets its reason.
func (p *pass) enter(i int) bool {
	job := &p.Waiting[i]
	p.ascending = p.ascending && (i == 0 || p.Waiting[i-1].ID < job.ID)
	p.beginsMS = sooner(p.beginsMS, p.begins(job))
	p.left[i], p.shapeOf[i] = job.Tasks, int32(job.Shape)
	p.reasons[i] = Reason{Job: job.ID, Partition: -1}
	why, eligible := p.eligible(job)
	switch {
	case !eligible:
	case job.Tasks == 0 && job.Throttled:
		why = ReasonJobArrayTaskLimit
	case job.Tasks > 0 && len(p.Shapes[job.Shape].Partitions) == 0:
		why = ReasonPartitionConfig
	default:
		return job.Tasks > 0
	}
	p.reasons[i].Code = why
	return false
}

// consider starts as many tasks of a job as fit in its partitions of one tier,
// makes room for others, and notes why the rest waits. All its partitions are
// tried before the job blocks one of them.
func (p *pass) consider(turns []entry) {
	stopped := p.stopped[:0]
	old := p.liftOwn(turns)
	for _, e := range turns {
		stopped = append(stopped, p.start(e))
	}
	if p.overtakes(turns, stopped) {
		for i, e := range turns {
			stopped[i] = stopped[i] || p.start(e)
		}
	}
	p.makeRoom(turns, stopped)
	waits := p.waits[:0]
	for i, e := range turns {
		if p.left[e.job] > 0 && !stopped[i] && p.block(e) {
			waits = append(waits, e)
		}
	}
	if len(waits) > 0 && (!p.Backfill.On || !p.reserve(waits, old, false)) {
		for _, e := range waits {
			shape, index, _ := p.at(e)
			p.close(e.id, shape, index)
		}
	}
	if len(waits) == 0 && p.left[turns[0].job] > 0 {
		p.reserveApart(turns, old)
	}
	p.stopped, p.waits = stopped, waits
}

// at is what a turn is about.
func (p *pass) at(e entry) (shape *Shape, partition int, t *trial) {
	t = &p.trials[e.shape][e.choice]
	return t.shape, t.shape.Partitions[e.choice], t
}

// start starts tasks until none is left or none fits. It returns true, and
// notes the reason, when a limit stops the rest.
func (p *pass) start(e entry) (stopped bool) {
	shape, index, t := p.at(e)
	switch {
	case p.left[e.job] == 0 || p.rules(t, shape, index).Code != ReasonNone:
		return false
	case p.stops(e):
		return true
	case t.failed && t.lifts == p.lifts || p.partitions[index].blocker != 0:
		return false
	}
	if p.feasibility.remembers(t, shape, index) && t.verdict.code != ReasonNone {
		t.failed, t.lifts = true, p.lifts // what does not fit on idle nodes does not fit on busy ones
		return false
	}
	if p.future != nil && !p.future.licensed(&p.Waiting[e.job], p.NowMS, shape.terms(true)) {
		return false
	}
	for p.left[e.job] > 0 {
		placement, as, fits := p.placeNow(e)
		if !fits {
			t.failed, t.lifts = true, p.lifts
			return false
		}
		if p.stopsPlaced(e, placement) {
			return true
		}
		p.begin(e, &placement, as.terms(true))
		p.starts[len(p.starts)-1].LimitS = p.limitOf(e, as)
		if p.left[e.job] > 0 && p.stops(e) {
			return true
		}
	}
	p.noteStarted(e)
	return false
}

// begin starts one task, which has what it gets for a time.
func (p *pass) begin(e entry, placement *place.Placement, span terms) {
	shape, index, _ := p.at(e)
	place.Take(p.nodes, *placement, shape.Request.Exclusive)
	p.noteTaken(placement.Allocs)
	p.room.take(*placement, shape.Request.Exclusive)
	p.enterStart(&p.Waiting[e.job], shape, placement, span)
	p.lendAgain(e)
	p.starts = append(p.starts, Start{Job: e.id, Partition: index, Placement: *placement, Priority: e.priority})
	p.left[e.job]--
}

// noteStarted notes that no task of a job waits that may start.
func (p *pass) noteStarted(e entry) {
	p.reasons[e.job].Code = ReasonNone
	if p.Waiting[e.job].Throttled {
		p.reasons[e.job] = Reason{Job: e.id, Code: ReasonJobArrayTaskLimit, Partition: -1}
	}
}

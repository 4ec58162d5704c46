// Package why finds out which change of a waiting job would let it start now, or sooner.
//
// Contract: it guesses nothing. Each change is tried by asking sched.Schedule for the plan
// of the queue with the job changed, and only what that plan says is told. So advice that
// is followed at once comes true, unless the queue has changed in between. It is as pure
// as Schedule: the same answers of the Queue give the same advice.
//
// Cost: at most MaxPasses passes of Schedule. Before each the caller is asked whether there
// is time for it.
package why

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// MaxPasses bounds how often the scheduler is asked for one answer.
const MaxPasses = 48

// Kind is what a change is about.
type Kind uint8

// Kinds of change.
const (
	Release     Kind = iota // the hold is released
	BeginNow                // its begin time is dropped
	Unreserved              // it names no reservation
	AnyNode                 // it names no nodes (--nodelist)
	AnyFeature              // it asks for no features (--constraint)
	Unlicensed              // it asks for no licenses
	Independent             // it waits for no other jobs (--dependency)
	Savable                 // it may be saved, and so fill holes that are shorter than its limit (--checkpoint)
	ToPartition             // it may run in the partition Name, and in no other
	TimeLimit               // its limit is Number seconds
	ToModel                 // its GPUs are of the model Name; "" = of any
	GPUs                    // it asks for Number GPUs, on each node or in all, as it does now
	Nodes                   // it asks for Number nodes
	ToQOS                   // it runs under the QOS Name
	ToAccount               // it is charged to the account Name
)

// Change is one change of the job; all else stays.
type Change struct {
	Kind   Kind
	Number uint32
	Name   string
}

// Queue is the snapshot of the queue with the job changed. It returns false where the job
// may not be changed so, or could not be.
type Queue func(Change) (sched.Snapshot, bool)

// Job is what may be changed about the job.
type Job struct {
	ID sched.JobID
	// TimeLimitS is its time limit; sched.Unlimited = none.
	TimeLimitS uint32
	// GPUs and Nodes are how many it asks for, 0 or 1 if it cannot do with fewer.
	GPUs, Nodes uint32
	// Single are changes that are tried as they are.
	Single []Change
}

// Start is when and where the job starts, as far as a plan says.
type Start struct {
	// Now: the plan starts it. Otherwise AtMS is its planned start; 0 = it has none.
	// Fills: it starts in a hole, and makes room when its nodes are needed.
	Now       bool
	Fills     bool
	AtMS      int64
	Partition int // index into Snapshot.Partitions
	Placement place.Placement
}

// Advice is a change that helps.
type Advice struct {
	Change Change
	Start  Start
}

// Answer is what was found out.
type Answer struct {
	// Start is that of the job as it is.
	Start Start
	// Advice has what lets the job start now, and then what lets it start sooner.
	Advice []Advice
	// Whole: everything was tried. Otherwise the caller had no more time.
	Whole  bool
	Passes int
}

// leastGainMS is by how much a start has to come sooner to be told.
const leastGainMS = 60_000

// longestLimitS stands for no time limit at all where a shorter one is looked for.
const longestLimitS = 30 * 24 * 3600

// Ask finds what would help a job. now is the snapshot with the job as it is; more says
// whether there is time for another pass.
func Ask(now sched.Snapshot, job Job, queue Queue, more func() bool) Answer {
	q := &question{job: job, queue: queue, more: more, answer: Answer{Whole: true}}
	q.answer.Start = q.ask(now)
	if q.answer.Start.Now {
		return q.answer
	}
	for _, change := range job.Single {
		q.keep(change, q.try(change))
	}
	q.shorter()
	q.fewer(GPUs, job.GPUs)
	q.fewer(Nodes, job.Nodes)
	slices.SortStableFunc(q.answer.Advice, func(a, b Advice) int {
		return cmp.Or(cmp.Compare(a.Start.rank(), b.Start.rank()), cmp.Compare(a.Start.AtMS, b.Start.AtMS))
	})
	return q.answer
}

// rank sorts what starts now before what starts later.
func (s *Start) rank() int {
	if s.Now {
		return 0
	}
	return 1
}

// question is one that is being answered.
type question struct {
	job    Job
	queue  Queue
	more   func() bool
	memo   sched.Memo
	answer Answer
}

// ask is the start of the job in the plan for a snapshot.
func (q *question) ask(s sched.Snapshot) Start {
	q.answer.Passes++
	var plan sched.Plan
	plan, q.memo = sched.Schedule(s, q.memo)
	return StartIn(&plan, q.job.ID)
}

// StartIn is the first start of a job in a plan, or else the first that is planned.
func StartIn(plan *sched.Plan, id sched.JobID) Start {
	for i := range plan.Starts {
		if start := &plan.Starts[i]; start.Job == id {
			return Start{Now: true, Fills: start.Fills, Partition: start.Partition, Placement: start.Placement}
		}
	}
	var first Start
	for i := range plan.Promises.Planned {
		if planned := &plan.Promises.Planned[i]; planned.Job == id && (first.AtMS == 0 || planned.StartMS < first.AtMS) {
			first = Start{AtMS: planned.StartMS, Partition: planned.Partition, Placement: planned.Placement}
		}
	}
	return first
}

// try is the start of the job after a change; none where it cannot be made, or there is
// no time to find out.
func (q *question) try(change Change) Start {
	if q.answer.Passes >= MaxPasses || !q.more() {
		q.answer.Whole = false
		return Start{}
	}
	s, may := q.queue(change)
	if !may {
		return Start{}
	}
	return q.ask(s)
}

// keep keeps a change if it helps, and reports whether it does.
func (q *question) keep(change Change, start Start) bool {
	if helps := start.Now || q.sooner(start); !helps {
		return false
	}
	q.answer.Advice = append(q.answer.Advice, Advice{change, start})
	return true
}

// sooner reports whether a planned start comes before the one that the job has.
func (q *question) sooner(start Start) bool {
	had := q.answer.Start.AtMS
	return start.AtMS != 0 && (had == 0 || start.AtMS <= had-leastGainMS)
}

// shorter looks for the longest time limit that helps, in whole minutes.
func (q *question) shorter() {
	minutes := (min(q.job.TimeLimitS, longestLimitS) - 1) / 60 // the most that is less
	if q.job.TimeLimitS == 0 || minutes == 0 {
		return
	}
	// A limit within a sixteenth of the longest is as good.
	if q.most(TimeLimit, 60, minutes, 16) {
		return
	}
	for part := uint32(2); part <= 8; part *= 2 {
		change := Change{Kind: TimeLimit, Number: max(minutes/part, 1) * 60}
		if q.keep(change, q.try(change)) {
			return
		}
	}
}

// fewer looks for the largest smaller number of something that helps.
func (q *question) fewer(kind Kind, number uint32) {
	if number < 2 || q.most(kind, 1, number-1, 0) {
		return
	}
	for _, less := range []uint32{number / 2, 1} {
		change := Change{Kind: kind, Number: less}
		if q.keep(change, q.try(change)) {
			return
		}
	}
}

// most looks for the largest number up to high with which the job starts now, by halving:
// less is taken to start whenever more does. within is the part of a number by which it
// may be too small; 0 = none. It keeps what it finds, and reports whether it did.
func (q *question) most(kind Kind, unit, high, within uint32) bool {
	low, best := uint32(1), Advice{Change: Change{Kind: kind, Number: unit}}
	if best.Start = q.try(best.Change); !best.Start.Now {
		return false
	}
	for low < high && (within == 0 || high-low > low/within) {
		middle := low + (high-low+1)/2
		change := Change{Kind: kind, Number: middle * unit}
		if start := q.try(change); start.Now {
			low, best = middle, Advice{change, start}
		} else {
			high = middle - 1
		}
	}
	return q.keep(best.Change, best.Start)
}

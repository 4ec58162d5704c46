// Package sim replays a recorded workload through sched.Schedule in virtual time: when
// would each job have started under this policy?
//
// Contract: Run is a pure function of its arguments, and asks the Schedule that the
// controller asks, with the planned starts of one pass given to the next as the
// controller does. Jobs run as long as they ran in the trace; plans go by their time
// limits, or by predictions. There is a pass after each thing that happens; of what
// happens in one second, ends come before submissions.
//
// Nodes may have owners (Cluster.Owners), whose jobs go first there. What the plan says
// of their guests is done at the prices of Policy.Lending, and the owners may take
// nodes back (Cluster.Reclaims).
package sim

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/predict"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// Policy is what is asked about.
type Policy struct {
	Name     string
	Backfill sched.BackfillPolicy
	// Predict is what plans go by. The time limit stays.
	Predict Prediction
	// Saves: jobs can be saved and fill holes, at these prices; the zero Saves: they cannot.
	Saves Saves
	// Priority is the multifactor priority's; the zero PriorityPolicy is first come,
	// first served.
	Priority sched.PriorityPolicy
	Lending  Lending
}

// Policies are those that have names.
var Policies = []Policy{
	{Name: "fcfs"},
	{Name: "easy", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1}},
	{Name: "easy-sjbf", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1, ShortestFirst: true}},
	{Name: "easy++", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1, ShortestFirst: true}, Predict: LastTwo},
	{Name: "easy-checkpoint", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1}, Saves: usualSaves},
	{Name: "easy-learned", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1, ShortestFirst: true}, Predict: Learned},
	{Name: "easy-exact", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1}, Predict: Exact},
	{Name: "conservative", Backfill: sched.BackfillPolicy{On: true}},
}

// Cluster is what the jobs run on.
type Cluster struct {
	Nodes []place.Node // ascending by name
	// Request is what a job asks for.
	Request func(job *trace.Job) place.Request
	// Processors is how many there are in all.
	Processors uint32
	// Partitions, ascending by name; nil = one of all nodes. A job runs in the one of
	// its trace, or where there is none of that name in the first.
	Partitions []sched.Partition
	Owners     []Owner
	Reclaims   []Reclaim
}

// Pool is a cluster of which a job may have any processors. There may be as many as a
// node may have CPUs.
func Pool(processors uint32) (Cluster, error) {
	if processors == 0 || processors > place.MaxCPUs {
		return Cluster{}, fmt.Errorf("give between 1 and %d processors", place.MaxCPUs)
	}
	cpus := place.FirstCPUs(processors)
	return Cluster{
		Nodes: []place.Node{{Name: "pool", Available: true, CPUs: cpus, FreeCPUs: cpus, MemoryBytes: 1 << 40, FreeMemory: 1 << 40, TmpOpen: true}},
		Request: func(job *trace.Job) place.Request {
			return place.Request{MinNodes: 1, MaxNodes: 1, CPUsPerTask: job.Processors, MemoryPerNode: 1}
		},
		Processors: processors,
	}, nil
}

// Outcome is what became of a job.
type Outcome struct {
	trace.Job
	StartS int64 // its first start; -1 = it has not started
	EndS   int64
	// PromisedS is the first start that was planned for it; -1 = it started without.
	PromisedS int64
	LostS     int64  // how long it ran in vain
	Stops     uint32 // how often it had to leave the nodes of an owner
	Saves     uint32 // how often it made room for what was planned, where it filled a hole
	Guest     bool   // it ran on nodes that another account owns
}

// WaitS is how long the job was in the queue without running: before its start, and
// where it had to leave, until it was as far as before.
func (o *Outcome) WaitS() int64 { return o.EndS - o.SubmitS - o.RunS }

// Slowdown is the bounded slowdown: how many times longer it took than it ran, of which
// less than ten seconds count as ten.
func (o *Outcome) Slowdown() float64 {
	return max(float64(o.WaitS()+o.RunS)/float64(max(o.RunS, 10)), 1)
}

// Result is a whole replay, in the order of the trace.
type Result struct {
	Policy     string
	Processors uint32
	Jobs       []Outcome
	Passes     int
	Lent       Lent
	Use        []Use // in the order of time
}

// Use is how many processors are in use, and how many are waited for, from a time on.
type Use struct {
	AtS           int64
	Used, WaitFor uint32
}

// Progress hears now and then how many of the jobs have ended. Its error ends the
// replay.
type Progress func(ended, jobs int) error

// Run replays jobs, which are in the order of their submission. progress may be nil.
func Run(jobs []trace.Job, cluster Cluster, policy Policy, progress Progress) (*Result, error) {
	for i := range jobs {
		if jobs[i].Processors > cluster.Processors {
			return nil, fmt.Errorf("job %d has %d processors, and the cluster has %d; give it more, or cut the job from the trace", jobs[i].ID, jobs[i].Processors, cluster.Processors)
		}
	}
	r := newReplay(jobs, cluster, policy)
	for r.ended < len(jobs) {
		if progress != nil && r.result.Passes%passesPerProgress == 0 {
			if err := progress(r.ended, len(jobs)); err != nil {
				return nil, err
			}
		}
		r.advance()
		if err := r.passes(); err != nil {
			return nil, err
		}
		r.noteUse()
	}
	return &r.result, nil
}

// passesPerProgress is after how many passes Progress hears again.
const passesPerProgress = 256

// replay is a run that is under way.
type replay struct {
	cluster   Cluster
	policy    Policy
	predicts  predict.LastTwo
	learned   *predict.Learned
	snapshot  sched.Snapshot
	partition map[string]int // by name
	memo      sched.Memo
	result    Result
	next      int     // the job that is submitted next
	ended     int     // how many have
	waiting   []int32 // in the order of the trace
	running   []int32 // likewise
	runs      []*run  // by position in the trace; nil = it does not run
	events    events
	nowS      int64
	shapes    map[shapeKey]int
	owners    owners
	turn      uint32 // the last that was given
	use       Use    // now
	wakeS     int64  // when a pass is awaited, whatever happens; 0 = never
}

func newReplay(jobs []trace.Job, cluster Cluster, policy Policy) *replay {
	r := &replay{cluster: cluster, policy: policy, runs: make([]*run, len(jobs)), shapes: map[shapeKey]int{}, partition: map[string]int{}}
	r.result = Result{Policy: policy.Name, Processors: cluster.Processors, Jobs: make([]Outcome, len(jobs))}
	for i := range jobs {
		r.result.Jobs[i] = Outcome{Job: jobs[i], StartS: -1, PromisedS: -1}
	}
	r.predicts, r.learned = predict.LastTwo{}, predict.NewLearned()
	r.snapshot = sched.Snapshot{Nodes: slices.Clone(cluster.Nodes), Backfill: policy.Backfill, Priority: policy.Priority}
	r.enterOwners()
	r.enterPartitions()
	return r
}

func (r *replay) enterPartitions() {
	partitions := r.cluster.Partitions
	if r.policy.Lending.Guests == GuestsNone {
		partitions = r.partitionsOfOwners()
	}
	if len(partitions) == 0 {
		partitions = []sched.Partition{partitionOf("all", allNodes(r.cluster.Nodes))}
	}
	r.snapshot.Partitions = slices.Clone(partitions)
	for i := range r.snapshot.Partitions {
		r.snapshot.Partitions[i].FillsHoles = r.policy.Saves.BoundS > 0
	}
	for i := range partitions {
		r.partition[partitions[i].Name] = i
	}
}

func partitionOf(name string, nodes []place.NodeIndex) sched.Partition {
	return sched.Partition{Name: name, Up: true, Nodes: nodes, MaxTimeS: sched.Unlimited, PriorityJobFactor: 1, QOS: -1}
}

func allNodes(nodes []place.Node) []place.NodeIndex {
	all := make([]place.NodeIndex, len(nodes))
	for i := range all {
		all[i] = place.NodeIndex(i)
	}
	return all
}

// advance goes to what happens next, and lets it happen.
func (r *replay) advance() {
	jobs := r.result.Jobs
	if len(r.events) == 0 || r.next < len(jobs) && jobs[r.next].SubmitS < r.events[0].atS {
		r.nowS = jobs[r.next].SubmitS
		r.waiting = append(r.waiting, int32(r.next))
		r.use.WaitFor += jobs[r.next].Processors
		r.next++
		return
	}
	happens := r.events.pop()
	r.nowS = happens.atS
	switch happens.kind {
	case reclaimBegins, reclaimEnds:
		r.reclaim(int(happens.job), happens.kind == reclaimBegins)
		return
	case wakes:
		r.wakeS = 0
		return
	}
	of := r.runs[happens.job]
	if of == nil || of.turn != happens.turn {
		return // something came between
	}
	switch happens.kind {
	case runEnds:
		if of.doneS(r.nowS) >= of.workS {
			r.finish(happens.job)
		} else {
			r.outlast(happens.job)
		}
	case parked:
		r.park(happens.job)
	case packed:
		r.pack(happens.job)
	case killed:
		r.requeue(happens.job)
	case saved:
		r.saved(happens.job)
	}
}

// finish is the end of a job that has run as long as it should.
func (r *replay) finish(job int32) {
	o := &r.result.Jobs[job]
	o.EndS = r.nowS
	r.use.Used -= o.Processors
	r.release(job)
	r.ended++
	r.predicts.Learn(described(&o.Job), o.RunS)
	r.learned.Learn(described(&o.Job), o.RunS)
}

// noteUse notes what is in use now, if that has changed.
func (r *replay) noteUse() {
	r.use.AtS = r.nowS
	last := len(r.result.Use) - 1
	switch {
	case last >= 0 && r.result.Use[last].AtS == r.nowS:
		r.result.Use[last] = r.use
	case last < 0 || r.result.Use[last].Used != r.use.Used || r.result.Use[last].WaitFor != r.use.WaitFor:
		r.result.Use = append(r.result.Use, r.use)
	}
}

// runsNow counts a job that waited among those that run, and waitsNow the opposite.
func (r *replay) runsNow(job int32) {
	r.use.Used += r.result.Jobs[job].Processors
	r.use.WaitFor -= r.result.Jobs[job].Processors
}

func (r *replay) waitsNow(job int32) {
	r.use.Used -= r.result.Jobs[job].Processors
	r.use.WaitFor += r.result.Jobs[job].Processors
}

// maxAgain bounds the passes at one time.
const maxAgain = 8

// passes plans, and does what the plan says, until nothing more follows at this time.
func (r *replay) passes() error {
	for range maxAgain {
		if len(r.waiting) == 0 && r.owners.stopped == 0 {
			return nil
		}
		if again, err := r.pass(); err != nil || !again {
			return err
		}
	}
	return nil
}

// pass plans once. again: another pass should follow.
func (r *replay) pass() (again bool, err error) {
	r.describe()
	var plan sched.Plan
	plan, r.memo = sched.Schedule(r.snapshot, r.memo)
	r.result.Passes++
	for i := range plan.Starts {
		r.start(int32(plan.Starts[i].Job)-1, &plan.Starts[i])
	}
	for _, id := range plan.Continues {
		r.resume(int32(id) - 1)
	}
	for i := range plan.Preemptions {
		r.preempt(&plan.Preemptions[i])
	}
	if len(plan.Starts) > 0 {
		r.waiting = slices.DeleteFunc(r.waiting, func(job int32) bool { return r.runs[job] != nil })
	}
	for _, planned := range plan.Promises.Planned {
		if o := &r.result.Jobs[planned.Job-1]; o.PromisedS < 0 {
			o.PromisedS = (planned.StartMS + 999) / 1000
		}
	}
	r.snapshot.Promises = plan.Promises
	r.wakeAt(plan.NextMS)
	if len(r.running) == 0 && len(r.waiting) > 0 && len(r.events) == 0 {
		at := slices.IndexFunc(plan.Reasons, func(reason sched.Reason) bool { return reason.Job == sched.JobID(r.waiting[0]+1) })
		return false, fmt.Errorf("job %d does not start on the idle cluster: %s; cut it from the trace, or describe nodes on which it fits", r.result.Jobs[r.waiting[0]].ID, plan.Reasons[max(at, 0)].Code)
	}
	return plan.NextMS != 0 && plan.NextMS < (r.nowS+1)*1000, nil
}

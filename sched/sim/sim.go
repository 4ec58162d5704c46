// Package sim replays a recorded workload through sched.Schedule in virtual time: when
// would each job have started under this policy?
//
// Contract: Run is a pure function of its arguments, and asks the Schedule that the
// controller asks, with the planned starts of one pass given to the next as the
// controller does. Jobs run as long as they ran in the trace; plans go by their time
// limits, or by predictions. There is a pass after each thing that happens; of what
// happens in one second, ends come before submissions.
package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// Policy is what is asked about.
type Policy struct {
	Name     string
	Backfill sched.BackfillPolicy
	// Predict: plans go by what a user's last two jobs ran on average (Tsafrir,
	// Etsion and Feitelson, 2007). The time limit stays.
	Predict bool
	// Priority is the multifactor priority's; the zero PriorityPolicy is first come,
	// first served.
	Priority sched.PriorityPolicy
}

// Policies are those that have names.
var Policies = []Policy{
	{Name: "fcfs"},
	{Name: "easy", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1}},
	{Name: "easy-sjbf", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1, ShortestFirst: true}},
	{Name: "easy++", Backfill: sched.BackfillPolicy{On: true, PartJobs: 1, ShortestFirst: true}, Predict: true},
	{Name: "conservative", Backfill: sched.BackfillPolicy{On: true}},
}

// Cluster is what the jobs run on: one partition of nodes.
type Cluster struct {
	Nodes []place.Node
	// Request is what a job that used so many processors asks for.
	Request func(processors uint32) place.Request
	// Processors is how many there are in all.
	Processors uint32
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
		Request: func(processors uint32) place.Request {
			return place.Request{MinNodes: 1, MaxNodes: 1, CPUsPerTask: processors, MemoryPerNode: 1}
		},
		Processors: processors,
	}, nil
}

// Outcome is what became of a job.
type Outcome struct {
	trace.Job
	StartS int64
	// PromisedS is the first start that was planned for it; -1 = it started without.
	PromisedS int64
}

// WaitS is how long the job waited.
func (o *Outcome) WaitS() int64 { return o.StartS - o.SubmitS }

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
}

// Run replays jobs, which are in the order of their submission.
func Run(jobs []trace.Job, cluster Cluster, policy Policy) (*Result, error) {
	for i := range jobs {
		if jobs[i].Processors > cluster.Processors {
			return nil, fmt.Errorf("job %d has %d processors, and the cluster has %d; give it more, or cut the job from the trace", jobs[i].ID, jobs[i].Processors, cluster.Processors)
		}
	}
	r := newReplay(jobs, cluster, policy)
	for r.next < len(jobs) || len(r.ends) > 0 {
		r.advance()
		if err := r.pass(); err != nil {
			return nil, err
		}
	}
	return &r.result, nil
}

// replay is a run that is under way.
type replay struct {
	cluster  Cluster
	policy   Policy
	predicts predictions
	snapshot sched.Snapshot
	memo     sched.Memo
	result   Result
	next     int      // the job that is submitted next
	waiting  []int32  // in the order of the trace
	running  []int32  // likewise
	runs     []run    // by position in the trace
	ends     endQueue // when something happens to running jobs
	nowS     int64
	shapes   map[shapeKey]int
}

// run is what is known of a job while it runs.
type run struct {
	placement place.Placement
	startS    int64
	plannedS  int64 // for how long it is planned
}

func newReplay(jobs []trace.Job, cluster Cluster, policy Policy) *replay {
	r := &replay{cluster: cluster, policy: policy, runs: make([]run, len(jobs)), shapes: map[shapeKey]int{}}
	r.result = Result{Policy: policy.Name, Processors: cluster.Processors, Jobs: make([]Outcome, len(jobs))}
	for i := range jobs {
		r.result.Jobs[i] = Outcome{Job: jobs[i], StartS: -1, PromisedS: -1}
	}
	if policy.Predict {
		r.predicts = predictions{}
	}
	nodes := make([]place.NodeIndex, len(cluster.Nodes))
	for i := range nodes {
		nodes[i] = place.NodeIndex(i)
	}
	r.snapshot = sched.Snapshot{
		Nodes:      slices.Clone(cluster.Nodes),
		Partitions: []sched.Partition{{Name: "all", Up: true, Nodes: nodes, MaxTimeS: sched.Unlimited, PriorityJobFactor: 1, QOS: -1}},
		Backfill:   policy.Backfill,
		Priority:   policy.Priority,
	}
	return r
}

// end is when a running job ends, or when its prediction turns out to be wrong.
type end struct {
	atS int64
	job int32
}

type endQueue []end

func (q endQueue) Len() int { return len(q) }
func (q endQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].atS, q[j].atS), cmp.Compare(q[i].job, q[j].job)) < 0
}
func (q endQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *endQueue) Push(x any)   { *q = append(*q, x.(end)) }
func (q *endQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// advance goes to what happens next, and lets it happen: a job ends, or outlasts what was
// predicted of it, or is submitted.
func (r *replay) advance() {
	jobs := r.result.Jobs
	if len(r.ends) == 0 || r.next < len(jobs) && jobs[r.next].SubmitS < r.ends[0].atS {
		r.nowS = jobs[r.next].SubmitS
		r.waiting = append(r.waiting, int32(r.next))
		r.next++
		return
	}
	happens := heap.Pop(&r.ends).(end)
	r.nowS = happens.atS
	if r.runs[happens.job].startS+jobs[happens.job].RunS <= r.nowS {
		r.finish(happens.job)
	} else {
		r.outlast(happens.job)
	}
}

func (r *replay) finish(job int32) {
	at, _ := slices.BinarySearch(r.running, job)
	r.running = slices.Delete(r.running, at, at+1)
	place.Release(r.snapshot.Nodes, r.runs[job].placement, r.staying)
	r.predicts.learn(&r.result.Jobs[job].Job)
	r.runs[job].placement = place.Placement{}
}

// staying are the jobs on a node that are still there.
func (r *replay) staying(node place.NodeIndex) []place.Stay {
	for _, job := range r.running {
		for i := range r.runs[job].placement.Allocs {
			if r.runs[job].placement.Allocs[i].Node == node {
				return []place.Stay{{}} // they are all alike
			}
		}
	}
	return nil
}

// pass plans once, and starts what the plan says.
func (r *replay) pass() error {
	if len(r.waiting) == 0 {
		return nil
	}
	r.describe()
	var plan sched.Plan
	plan, r.memo = sched.Schedule(r.snapshot, r.memo)
	r.result.Passes++
	for i := range plan.Starts {
		r.start(int32(plan.Starts[i].Job)-1, plan.Starts[i].Placement)
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(job int32) bool { return r.result.Jobs[job].StartS >= 0 })
	for _, planned := range plan.Promises.Planned {
		if o := &r.result.Jobs[planned.Job-1]; o.PromisedS < 0 {
			o.PromisedS = (planned.StartMS + 999) / 1000
		}
	}
	r.snapshot.Promises = plan.Promises
	if len(r.running) == 0 && len(r.waiting) > 0 {
		job := &r.result.Jobs[r.waiting[0]]
		return fmt.Errorf("job %d does not start on the idle cluster: %s", job.ID, plan.Reasons[0].Code)
	}
	return nil
}

func (r *replay) start(job int32, placement place.Placement) {
	o := &r.result.Jobs[job]
	o.StartS = r.nowS
	place.Take(r.snapshot.Nodes, placement, false)
	r.runs[job] = run{placement: placement, startS: r.nowS, plannedS: r.plannedS(job)}
	at, _ := slices.BinarySearch(r.running, job)
	r.running = slices.Insert(r.running, at, job)
	heap.Push(&r.ends, end{r.nowS + min(o.RunS, r.runs[job].plannedS), job})
}

package main

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// What is simulated: a small cluster, and two labs that both ask for more of it
// than it has.
const (
	nodes       = 8
	gpusPerNode = 8
	jobsEach    = 500
	hour        = int64(3600 * 1000)
	// headStart is how long the second lab has everything for itself.
	headStart = 12 * hour
	halfLife  = 24 * 3600 // seconds
)

// submitter is a lab with somebody who submits.
type submitter struct {
	lab
	user   string
	fromMS int64 // when it submits
}

var labs = [2]submitter{
	{lab: lab{name: "physics", shares: 60}, user: "ada", fromMS: headStart},
	{lab: lab{name: "chemistry", shares: 40}, user: "eve"},
}

// cluster is the real state and the real scheduler in virtual time: jobs take
// as long as they are told.
type cluster struct {
	state   *state.State
	index   uint64
	nowMS   int64
	memo    sched.Memo
	random  *rand.Rand
	lengths map[uint32]int64 // of jobs, in milliseconds
	ends    endQueue
}

// end is when a job will be over.
type end struct {
	atMS int64
	job  uint32
}

type endQueue []end

func (q endQueue) Len() int { return len(q) }
func (q endQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].atMS, q[j].atMS), cmp.Compare(q[i].job, q[j].job)) < 0
}
func (q endQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *endQueue) Push(x any)   { *q = append(*q, x.(end)) }
func (q *endQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// newCluster has the labs, the weights and the nodes; nothing runs yet.
func newCluster(seed uint64, weight uint32) (*cluster, error) {
	c := &cluster{state: state.New(), random: rand.New(rand.NewPCG(seed, 1)), lengths: map[uint32]int64{}}
	site := policy.Message(policy.Default())
	site.Priority.WeightFairShare, site.Priority.DecayHalfLifeS = weight, halfLife
	site.Partitions[0].TresBillingWeights = map[string]float64{"gres/gpu": 1}
	accounts := state.ChangeAccounts{}
	for i := range labs {
		accounts.Changes = append(accounts.Changes,
			state.AccountChange{Action: state.AddRecord, Record: state.AccountRecord, Account: labs[i].name, Shares: &labs[i].shares},
			state.AccountChange{Action: state.AddRecord, Record: state.AssociationRecord, Account: labs[i].name, User: labs[i].user})
	}
	commands := []state.Command{state.ApplyPolicy{Policy: *policy.FromMessage(site)}, accounts}
	for n := range nodes {
		register := &pb.Register{Node: fmt.Sprintf("n%d", n+1), Inventory: &pb.Inventory{BootId: "b", Cpus: 64, MemoryBytes: 512 << 30}}
		for g := range uint32(gpusPerNode) {
			register.Inventory.Devices = append(register.Inventory.Devices, &pb.Device{
				Id: fmt.Sprintf("gpu%d", g), Index: g, Model: "h200", Health: pb.DeviceHealth_DEVICE_HEALTH_OK,
			})
		}
		commands = append(commands, state.RegisterFromMessage(register))
	}
	for _, command := range commands {
		if _, err := c.apply(command); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// apply carries out a command at the present time.
func (c *cluster) apply(command state.Command) (state.Result, error) {
	entry, err := state.Encode(command, state.RequestID{}, c.nowMS)
	if err != nil {
		return state.Result{}, err
	}
	c.index++
	result, err := c.state.Apply(c.index, entry)
	switch {
	case err != nil:
		return result, err
	case result.Refused != nil:
		return result, fmt.Errorf("%s", result.Refused.Message)
	}
	return result, nil
}

// submit has a lab submit all its jobs: of 1 to 8 GPUs, for a quarter of an
// hour to three hours.
func (c *cluster) submit(l *submitter) error {
	for range jobsEach {
		gpus := uint32(1) << c.random.IntN(4)
		command, err := state.SubmitFromSpec(&pb.JobSpec{
			Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", CpusPerTask: gpus, MemoryPerNodeBytes: 1 << 30, TimeLimitS: spec.Unlimited,
			Gpus: []*pb.GpuRequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: gpus}},
		}, &pb.Identity{Uid: 1000, Gid: 1000, User: l.user})
		if err != nil {
			return err
		}
		result, err := c.apply(command)
		if err != nil {
			return err
		}
		c.lengths[result.JobID] = hour/4 + c.random.Int64N(hour*11/4)
	}
	return nil
}

// plan starts what the scheduler starts.
func (c *cluster) plan() error {
	snapshot := c.state.View().SchedSnapshot(c.nowMS)
	var plan sched.Plan
	plan, c.memo = sched.Schedule(snapshot, c.memo)
	if len(plan.Starts) == 0 {
		return nil
	}
	result, err := c.apply(state.PlanToCommand(&snapshot, &plan))
	for _, start := range result.Starts {
		if start.Dropped != "" {
			return fmt.Errorf("a planned start of job %d is dropped: %s", start.Asked, start.Dropped)
		}
		heap.Push(&c.ends, end{atMS: c.nowMS + c.lengths[start.Job], job: start.Job})
	}
	return err
}

// finish ends the next job.
func (c *cluster) finish() error {
	next := heap.Pop(&c.ends).(end)
	job, known := c.state.Job(next.job)
	if !known || job.Run == nil {
		return fmt.Errorf("job %d does not run", next.job)
	}
	var reports state.AllocsEnded
	for i := range job.Run.Allocs {
		reports.Reports = append(reports.Reports, state.ReportFromMessage(job.Run.Allocs[i].Node, &pb.AllocEnded{
			Alloc: &pb.AllocId{Job: job.ID, Epoch: job.Epoch}, Cause: pb.EndCause_END_CAUSE_EXITED,
		}))
	}
	_, err := c.apply(reports)
	return err
}

// sample looks at the cluster as it is now.
func (c *cluster) sample() sample {
	out := sample{atMS: c.nowMS}
	snapshot := c.state.View().SchedSnapshot(c.nowMS)
	lab := func(association int32) int {
		for i := range labs {
			if snapshot.Associations[association].Account == labs[i].name {
				return i
			}
		}
		return 0
	}
	for i := range snapshot.Associations {
		if a := &snapshot.Associations[i]; a.User != "" {
			out.used[lab(int32(i))] += float64(a.UsageRaw) / 1024
		}
	}
	for i := range snapshot.Waiting {
		out.waiting[lab(snapshot.Waiting[i].Association)]++
	}
	for i := range snapshot.Running {
		for _, alloc := range snapshot.Running[i].Placement.Allocs {
			out.gpus[lab(snapshot.Running[i].Association)] += len(alloc.Devices)
		}
	}
	return out
}

// simulated lets the labs submit, and everything come to its end; a sample is
// taken every half hour.
func simulated(seed uint64, weight uint32) (*show, error) {
	c, err := newCluster(seed, weight)
	if err != nil {
		return nil, err
	}
	out := &show{
		labs: [2]lab{labs[0].lab, labs[1].lab}, jobs: [2]int{jobsEach, jobsEach}, gpus: nodes * gpusPerNode, halfLifeS: halfLife,
		unit: "h", unitMS: hour, every: 12, source: "in virtual time",
	}
	submitted := 0
	for at := int64(0); submitted < len(labs) || len(c.ends) > 0; at += hour / 2 {
		for len(c.ends) > 0 && c.ends[0].atMS < at {
			c.nowMS = c.ends[0].atMS
			if err := errors.Join(c.finish(), c.plan()); err != nil {
				return nil, err
			}
		}
		c.nowMS = at
		for i := range labs {
			if labs[i].fromMS == at {
				submitted++
				if err := errors.Join(c.submit(&labs[i]), c.plan()); err != nil {
					return nil, err
				}
			}
		}
		out.samples = append(out.samples, c.sample())
	}
	return out, c.state.Check()
}

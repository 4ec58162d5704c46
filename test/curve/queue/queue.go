// Package queue is a replicated state with nodes and waiting jobs, and what a scheduling
// pass over it takes: what the curve and the comparison with Slurm's cycle have in common.
//
// It promises to run what a controller runs: a state is filled by the commands of the log,
// and snapshot and plan are taken of it as the leader does.
package queue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// Figures are what was measured at one size, in processor time unless they say otherwise.
// Times include the snapshot unless they say otherwise.
type Figures struct {
	Type           string  `json:"type"`
	Nodes          int     `json:"nodes"`
	Jobs           int     `json:"jobs"`
	Shapes         int     `json:"shapes"`
	ColdSnapshotMS float64 `json:"cold_snapshot_ms"`
	ColdMS         float64 `json:"cold_ms"`
	Starts         int     `json:"starts"`
	StartUS        float64 `json:"start_us"`
	FullMS         float64 `json:"full_ms"`
	FullWallMS     float64 `json:"full_wall_ms"` // in time that passed
	// After one event: medians.
	EventSnapshotMS float64 `json:"event_snapshot_ms"`
	EventPlanMS     float64 `json:"event_plan_ms"`
	EventMS         float64 `json:"event_ms"`
}

// Cluster is a state and its log.
type Cluster struct {
	state *state.State
	nowMS int64
	jobs  int // submitted so far
}

const startMS = 1_700_000_000_000

// New is idle nodes with 64 CPUs, 512 GiB and 8 linked GPUs each.
func New(kind string, nodes int) (*Cluster, error) {
	c := &Cluster{state: state.New(), nowMS: startMS}
	site := *c.state.View().Policy()
	site.MaxSubmitJobsPerUser, site.MaxJobCount = 10_000_000, 10_000_000
	switch kind {
	case "builtin", "backfill":
		site.Scheduler = policy.SchedulerFromMessage(&pb.SchedulerPolicy{
			Type: kind, BfJobPartCountReserve: policy.DefaultPartJobs, BfMaxJobTest: policy.DefaultPlannedJobs, BfMaxJobArrayResv: policy.DefaultPlannedTasks,
		})
	default:
		return nil, fmt.Errorf("type %q: use builtin or backfill", kind)
	}
	if _, err := c.apply(state.ApplyPolicy{Policy: site}, state.RequestID{}); err != nil {
		return nil, err
	}
	for n := range nodes {
		message := &pb.Register{Node: fmt.Sprintf("n%05d", n), Inventory: &pb.Inventory{Cpus: 64, MemoryBytes: 512 << 30, BootId: "b"}}
		for d := range 8 {
			device := &pb.Device{Id: fmt.Sprintf("gpu%d", d), Index: uint32(d), Model: "a100", Health: pb.DeviceHealth_DEVICE_HEALTH_OK}
			for other := range 8 {
				if other != d {
					device.Links = append(device.Links, fmt.Sprintf("gpu%d", other))
				}
			}
			message.Inventory.Devices = append(message.Inventory.Devices, device)
		}
		if _, err := c.apply(state.RegisterFromMessage(message), state.RequestID{}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// apply appends a command to the log.
func (c *Cluster) apply(command state.Command, id state.RequestID) (state.Result, error) {
	entry, err := state.Encode(command, id, c.nowMS)
	if err != nil {
		return state.Result{}, err
	}
	result, err := c.state.Apply(c.state.Index()+1, entry)
	if err == nil && result.Refused != nil {
		err = result.Refused
	}
	return result, err
}

// Job is one that waits: what job number i asks for.
type Job func(i int) (spec state.Spec)

// Unlike are jobs of so many shapes at most: from one GPU to two nodes, from a minute to
// days, at many priorities.
func Unlike(shapes int) Job {
	return func(i int) state.Spec {
		i %= shapes
		spec := state.Spec{
			CPUsPerTask: uint32(1 + i/8%8), TimeLimitS: uint32(60 * (10 + i/64*7)), MemoryPerCPU: 1 << 30,
			GPUs: gpus(1 + i%8),
			Nice: int32(i * 7919 % 997),
		}
		if i%16 == 0 {
			spec.MinNodes, spec.MaxNodes = 2, 2
		}
		return spec
	}
}

// Simple are jobs of a CPU and from 1 to 8 GPUs of one node, in the order of their
// submission, with 250 unlike time limits in minutes.
func Simple(i int) state.Spec {
	return state.Spec{CPUsPerTask: 1, TimeLimitS: uint32(60 * (10 + i/8%250*7)), MemoryPerCPU: 1 << 30, GPUs: gpus(1 + i%8)}
}

// Whole are jobs that have all GPUs of a node for ten hours.
func Whole(int) state.Spec {
	return state.Spec{CPUsPerTask: 1, TimeLimitS: 10 * 3600, MemoryPerCPU: 1 << 30, GPUs: gpus(8)}
}

func gpus(count int) []state.GPURequest {
	return []state.GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: uint32(count)}}
}

// Submit submits jobs until there were so many in all.
func (c *Cluster) Submit(jobs int, job Job) error {
	for ; c.jobs < jobs; c.jobs++ {
		command := state.SubmitJob{
			Owner:       state.Owner{UID: 1000, GID: 1000, User: "user", Group: "user", Home: "/home/user", Shell: "/bin/bash"},
			Script:      []byte("#!/bin/sh\nexec train\n"),
			Environment: []byte("HOME=/home/user\x00"),
			Spec:        job(c.jobs),
			Own:         state.Own{Name: "train", WorkDirectory: "/home/user"},
		}
		var id state.RequestID
		binary.BigEndian.PutUint64(id[:], uint64(c.jobs)+1)
		c.nowMS++
		if _, err := c.apply(c.state.Abridge(command), id); err != nil {
			return err
		}
	}
	return nil
}

// Start starts all jobs that can start now, and says how many.
func (c *Cluster) Start() (int, error) {
	made := new(planner).pass(c)
	return len(made.plan.Starts), c.start(&made)
}

// clone is another state of the same.
func (c *Cluster) clone() (*Cluster, error) {
	var out bytes.Buffer
	if err := c.state.View().Persist(&out); err != nil {
		return nil, err
	}
	restored, err := state.Restore(&out)
	if err != nil {
		return nil, err
	}
	return &Cluster{state: restored, nowMS: c.nowMS, jobs: c.jobs}, nil
}

// planner is the leader's part: what one pass leaves for the next.
type planner struct {
	snapshot state.SnapshotMemo
	memo     sched.Memo
	promises sched.Promises
}

// pass is a snapshot and a plan, and how long they took.
type pass struct {
	snapshot           sched.Snapshot
	plan               sched.Plan
	took, snapshotTook time.Duration
	passed             time.Duration // not in processor time
}

func (p *planner) pass(c *Cluster) pass {
	view := c.state.View()
	var out pass
	begin, beginTime := processor(), time.Now()
	out.snapshot, p.snapshot = view.SchedSnapshotAfter(p.snapshot, c.nowMS, state.NodeReports{})
	out.snapshotTook = processor() - begin
	out.snapshot.Promises = p.promises
	out.plan, p.memo = sched.Schedule(out.snapshot, p.memo)
	out.took, out.passed = processor()-begin, time.Since(beginTime)
	p.promises = out.plan.Promises
	return out
}

// Measure leaves the cluster as it is.
func (c *Cluster) Measure(events int) (Figures, error) {
	var f Figures
	cold, first := c.fromNothing()
	f.ColdSnapshotMS, f.ColdMS, f.Starts = cold.snapshotMS, cold.allMS, len(first.plan.Starts)
	full, err := c.clone()
	if err != nil {
		return f, err
	}
	if err := full.start(first); err != nil {
		return f, err
	}
	again, _ := full.fromNothing()
	f.FullMS, f.FullWallMS = again.allMS, again.wallMS
	f.StartUS = (cold.planMS - again.planMS) * 1000 / float64(max(f.Starts, 1))
	var p planner
	p.pass(full)
	var snapshots, plans, all []float64
	for range events {
		if err := full.end(); err != nil {
			return f, err
		}
		after := p.pass(full)
		snapshots, plans, all = append(snapshots, ms(after.snapshotTook)), append(plans, ms(after.took-after.snapshotTook)), append(all, ms(after.took))
		if err := full.start(&after); err != nil {
			return f, err
		}
	}
	f.EventSnapshotMS, f.EventPlanMS, f.EventMS = median(snapshots), median(plans), median(all)
	return f, nil
}

// taken is what passes took: medians.
type taken struct{ snapshotMS, planMS, allMS, wallMS float64 }

// fromNothing makes some passes that know nothing from before, and returns the first.
func (c *Cluster) fromNothing() (taken, *pass) {
	var first pass
	var snapshots, plans, all, wall []float64
	for i := range 3 {
		made := new(planner).pass(c)
		if i == 0 {
			first = made
		}
		snapshots, plans = append(snapshots, ms(made.snapshotTook)), append(plans, ms(made.took-made.snapshotTook))
		all, wall = append(all, ms(made.took)), append(wall, ms(made.passed))
	}
	return taken{median(snapshots), median(plans), median(all), median(wall)}, &first
}

// processor is what the process has used of the processor, by itself and in the kernel: on
// a machine that does other things besides, the time that passes says less.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it can only fail for other arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// start commits what a plan starts.
func (c *Cluster) start(made *pass) error {
	for chunk := range slices.Chunk(state.PlanToCommand(&made.snapshot, &made.plan).Starts, bounds.MaxStarts) {
		result, err := c.apply(state.PlaceJobs{Starts: chunk}, state.RequestID{})
		if err != nil {
			return err
		}
		for _, start := range result.Starts {
			if start.Dropped != "" {
				return fmt.Errorf("a start of job %d was dropped: %s", start.Asked, start.Dropped)
			}
		}
	}
	return nil
}

// end lets the first job end that runs.
func (c *Cluster) end() error {
	for job := range c.state.View().LiveJobs() {
		if !job.HoldsNodes() {
			continue
		}
		var ended state.AllocsEnded
		for i := range job.Run.Allocs {
			ended.Reports = append(ended.Reports, state.AllocReport{Job: job.ID, Epoch: job.Epoch, Node: job.Run.Allocs[i].Node, Cause: pb.EndCause_END_CAUSE_EXITED})
		}
		c.nowMS += 1000
		_, err := c.apply(ended, state.RequestID{})
		return err
	}
	return nil
}

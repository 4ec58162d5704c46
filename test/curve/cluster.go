package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// figures are what was measured at one size. Times include the snapshot unless they say
// otherwise.
type figures struct {
	Type           string  `json:"type"`
	Nodes          int     `json:"nodes"`
	Jobs           int     `json:"jobs"`
	Shapes         int     `json:"shapes"`
	ColdSnapshotMS float64 `json:"cold_snapshotTookms"`
	ColdMS         float64 `json:"cold_ms"`
	Starts         int     `json:"starts"`
	StartUS        float64 `json:"start_us"`
	FullMS         float64 `json:"full_ms"`
	// After one event: medians.
	EventSnapshotMS float64 `json:"event_snapshotTookms"`
	EventPlanMS     float64 `json:"event_plan_ms"`
	EventMS         float64 `json:"event_ms"`
}

// cluster is a state and its log.
type cluster struct {
	state *state.State
	nowMS int64
	jobs  int // submitted so far
}

const startMS = 1_700_000_000_000

// newCluster is idle nodes with 64 CPUs, 512 GiB and 8 linked GPUs each.
func newCluster(kind string, nodes int) (*cluster, error) {
	c := &cluster{state: state.New(), nowMS: startMS}
	policy := *c.state.View().Policy()
	policy.MaxSubmitJobsPerUser, policy.MaxJobCount = 10_000_000, 10_000_000
	switch kind {
	case "builtin", "backfill":
		policy.Scheduler = state.SchedulerFromMessage(&pb.SchedulerPolicy{
			Type: kind, BfJobPartCountReserve: state.DefaultPartJobs, BfMaxJobTest: state.DefaultPlannedJobs, BfMaxJobArrayResv: state.DefaultPlannedTasks,
		})
	default:
		return nil, fmt.Errorf("type %q: use builtin or backfill", kind)
	}
	if _, err := c.apply(state.ApplyPolicy{Policy: policy}, state.RequestID{}); err != nil {
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
func (c *cluster) apply(command state.Command, id state.RequestID) (state.Result, error) {
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

// submit lets so many jobs wait in all, of so many shapes at most: from one GPU to two
// nodes, from a minute to days, at many priorities.
func (c *cluster) submit(jobs, shapes int) error {
	for ; c.jobs < jobs; c.jobs++ {
		i := c.jobs % shapes
		command := state.SubmitJob{
			Owner:       state.Owner{UID: 1000, GID: 1000, User: "user", Group: "user", Home: "/home/user", Shell: "/bin/bash"},
			Script:      []byte("#!/bin/sh\nexec train\n"),
			Environment: []byte("HOME=/home/user\x00"),
			Spec: state.Spec{
				CPUsPerTask: uint32(1 + i/8%8), TimeLimitS: uint32(60 * (10 + i/64*7)), MemoryPerCPU: 1 << 30,
				GPUs: []state.GPURequest{{Scope: pb.GpuScope_GPU_SCOPE_NODE, Count: uint32(1 + i%8)}},
				Nice: int32(i * 7919 % 997),
			},
			Own: state.Own{Name: "train", WorkDirectory: "/home/user"},
		}
		if i%16 == 0 {
			command.Spec.MinNodes, command.Spec.MaxNodes = 2, 2
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

// clone is another state of the same.
func (c *cluster) clone() (*cluster, error) {
	var out bytes.Buffer
	if err := c.state.View().Persist(&out); err != nil {
		return nil, err
	}
	restored, err := state.Restore(&out)
	if err != nil {
		return nil, err
	}
	return &cluster{state: restored, nowMS: c.nowMS, jobs: c.jobs}, nil
}

// planner is the leader's part: what one pass leaves for the next.
type planner struct {
	memo     sched.Memo
	promises sched.Promises
}

// pass is a snapshot and a plan, and how long they took.
type pass struct {
	snapshot           sched.Snapshot
	plan               sched.Plan
	took, snapshotTook time.Duration
}

func (p *planner) pass(c *cluster) pass {
	view := c.state.View()
	var out pass
	begin := processor()
	out.snapshot = view.SchedSnapshot(c.nowMS)
	out.snapshotTook = processor() - begin
	out.snapshot.Promises = p.promises
	out.plan, p.memo = sched.Schedule(out.snapshot, p.memo)
	out.took = processor() - begin
	p.promises = out.plan.Promises
	return out
}

// measure leaves the cluster as it is.
func (c *cluster) measure(events int) (figures, error) {
	var f figures
	cold := new(planner).pass(c)
	f.ColdSnapshotMS, f.ColdMS, f.Starts = ms(cold.snapshotTook), ms(cold.took), len(cold.plan.Starts)
	full, err := c.clone()
	if err != nil {
		return f, err
	}
	if err := full.start(&cold); err != nil {
		return f, err
	}
	var p planner
	f.FullMS = ms(p.pass(full).took)
	f.StartUS = (f.ColdMS - f.FullMS) * 1000 / float64(max(f.Starts, 1))
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

// processor is what the process has used of the processor, by itself and in the kernel: on
// a machine that does other things besides, the time that passes says less.
func processor() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it can only fail for other arguments
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// start commits what a plan starts.
func (c *cluster) start(made *pass) error {
	for chunk := range slices.Chunk(state.PlanToCommand(&made.snapshot, &made.plan).Starts, state.MaxStarts) {
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
func (c *cluster) end() error {
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

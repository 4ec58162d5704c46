package state

import (
	"encoding/binary"
	"fmt"
	"math/rand"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// walker makes random commands, many of them late, repeated or senseless, from
// what the state looks like. It is the same for the same seed.
type walker struct {
	*rand.Rand
	requests uint64
	boots    map[string]int
	shares   bool // accounts, limits, dependencies and preemption too
	frozen   bool // suspension too
	saves    bool // jobs are saved
	owners   bool // nodes are reclaimed
	stages   bool // files are staged
	mails    bool // somebody wants mail
}

func newWalker(seed int64) *walker {
	return &walker{Rand: rand.New(rand.NewSource(seed)), boots: map[string]int{}}
}

func (w *walker) chance(percent int) bool { return w.Intn(100) < percent }

func (w *walker) requestID() RequestID {
	var id RequestID
	if w.requests > 0 && w.chance(5) {
		binary.BigEndian.PutUint64(id[:], uint64(w.Int63n(int64(w.requests)))+1) // asked before
		return id
	}
	w.requests++
	binary.BigEndian.PutUint64(id[:], w.requests)
	return id
}

func (w *walker) next(v *View) Command {
	if v.Index() < 12 {
		return w.register(v)
	}
	if v.Index() == 13 {
		return w.labs()
	}
	if w.mails && w.chance(4) {
		return w.mail(v)
	}
	if w.chance(5) {
		return w.accounts()
	}
	if w.shares && w.chance(4) {
		return w.preempt(v)
	}
	if w.frozen && !w.saves && len(inPhases(v, Running)) == 0 && w.chance(40) {
		return w.place(v) // a job to be suspended has to run
	}
	if w.owners && w.chance(3) {
		return w.lend()
	}
	if w.owners && w.chance(3) {
		return w.reserve(v)
	}
	if w.owners && w.chance(12) {
		return w.reclaim(v)
	}
	if w.frozen && w.chance(12) {
		return w.suspensions(v)
	}
	if w.saves && w.chance(70) {
		return w.saved(v)
	}
	switch n := w.Intn(100); {
	case n < 22:
		command := w.submit()
		if w.shares {
			w.waits(v, &command)
		}
		if w.owners && w.chance(60) {
			w.nameReservation(v, &command)
		}
		if w.mails && w.chance(60) {
			command.Spec.MailTypes = uint32(w.Intn(int(spec.MailArrayTasks) << 1))
		}
		return command
	case n < 45:
		return w.place(v)
	case n < 52:
		return w.ready(v)
	case n < 72:
		return w.ended(v)
	case n < 78:
		return CancelJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(30), Coordinator: []string{"", w.userName()}[w.Intn(2)]}
	case n < 81 && w.shares && w.chance(20):
		return w.top(v)
	case n < 81:
		return HoldJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(30), AsUser: w.shares && w.chance(20)}
	case n < 84:
		return ReleaseJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(50)}
	case n < 88:
		hold := w.shares && w.chance(20)
		return RequeueJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(50), Hold: hold, SpecialExit: hold && w.chance(30), Incomplete: hold && w.chance(30)}
	case n < 90 && w.shares:
		return w.update(v)
	case n < 92:
		return w.register(v)
	case n < 94:
		c := UpdateNodes{Names: []string{w.node()}, Action: NodeAction(w.Intn(6)), Reason: "test", User: "root"}
		if w.saves && w.chance(50) {
			c.Action, c.Evacuate, c.WithinMS = DrainNode, w.chance(90), int64(w.Intn(3))*30_000
		}
		return c
	case n < 96 && w.chance(50):
		return UpdateNodes{Names: []string{"n0", "n1", "n2"}, Action: ResumeNode}
	case n < 95:
		return NodesLost{Names: []string{w.node()}}
	case n < 96:
		return NodesBack{Names: []string{w.node()}}
	case n < 97:
		return w.policy()
	case n < 99:
		return PurgeJobs{BeforeMS: v.TimeMS()}
	case w.shares && w.chance(50):
		return EndLateJobs{}
	case w.chance(50):
		return NoteLeftOvers{Name: w.node(), LeftOvers: []LeftOver{{What: "/x", Error: "busy"}}[:w.Intn(2)]}
	default:
		return Barrier{}
	}
}

func (w *walker) uid() uint32  { return []uint32{0, 1000, 1001}[w.Intn(3)] }
func (w *walker) node() string { return fmt.Sprintf("n%d", w.Intn(6)) }

func (w *walker) submit() SubmitJob {
	uid := w.uid()
	c := SubmitJob{
		Owner:  Owner{UID: uid, User: fmt.Sprintf("u%d", uid)},
		Script: []byte(fmt.Sprintf("#!/bin/sh\n# %d\n", w.Intn(3))),
		Own:    Own{Name: fmt.Sprint(w.Intn(4))},
		Spec: Spec{
			Requeue: w.chance(60), Hold: w.chance(10), Exclusive: w.chance(5),
			CPUsPerTask: uint32(w.Intn(3)), MinNodes: uint32(w.Intn(3)), Tasks: uint32(w.Intn(4)),
		},
	}
	if w.owners {
		c.Spec.Network = []pb.Network{unsaid, private, host, private, private}[w.Intn(5)]
	}
	if w.chance(20) {
		c.Environment = []byte("A=1\x00")
	}
	if w.chance(40) {
		first := uint32(w.Intn(5))
		c.Spec.ArrayTasks = []ranges.Range{{First: first, Last: first + uint32(w.Intn(12)), Step: uint32(w.Intn(3))}}
		c.Spec.MaxRunning = uint32(w.Intn(4))
	}
	if w.chance(10) {
		c.Spec.Partitions = []string{"gpu"}
	}
	if w.chance(10) {
		c.Spec.Account, c.Spec.QOS = w.accountName(), w.qosName()
	}
	if w.shares {
		w.landing(&c)
	}
	if w.shares && w.chance(15) {
		c.Spec.Checkpoint.Mode = spec.CheckpointApp
	}
	if w.stages {
		w.staging(&c)
	}
	if w.chance(15) {
		c.Spec.Licenses = []policy.License{{Name: "x", Count: uint32(w.Intn(3))}, {Name: "y", Count: 1}}[:1+w.Intn(2)]
	}
	return c
}

func (w *walker) someJob(v *View) uint32 {
	jobs := slices.Collect(v.Jobs(0))
	if len(jobs) == 0 || w.chance(3) {
		return uint32(w.Intn(50))
	}
	return jobs[w.Intn(len(jobs))].ID
}

// inPhases are the live jobs that are in one of some phases.
func inPhases(v *View, phases ...Phase) []*Job {
	var jobs []*Job
	for job := range v.LiveJobs() {
		if slices.Contains(phases, job.Phase) {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

func (w *walker) targets(v *View) []Target {
	var targets []Target
	for range 1 + w.Intn(2) {
		target := Target{Job: w.someJob(v)}
		if job, known := v.Job(target.Job); known && job.Array != 0 && w.chance(60) {
			target.Job = job.Array
			first := uint32(w.Intn(8))
			target.Tasks = []ranges.Range{{First: first, Last: first + uint32(w.Intn(5)), Step: 1 + uint32(w.Intn(2))}}
		}
		targets = append(targets, target)
	}
	return targets
}

func (w *walker) place(v *View) Command {
	var command PlaceJobs
	for range 1 + w.Intn(3) {
		order := StartOrder{Job: w.someJob(v), Partition: "main"}
		if waiting := inPhases(v, Waiting); len(waiting) > 0 && w.chance(90) {
			job := waiting[w.Intn(len(waiting))]
			order.Job, order.Partition = job.ID, job.Spec.Partitions[0]
		}
		for n := range 6 {
			if node, known := v.Node(fmt.Sprintf("n%d", n)); known && node.Inventory != nil && (node.Available() || w.chance(1)) && w.chance(35) {
				order.Allocs = append(order.Allocs, w.allocOrder(node))
			}
		}
		if w.stages {
			w.whereStaged(v, &order)
		}
		if w.saves {
			w.resumeFrom(v, &order)
		}
		command.Starts = append(command.Starts, order)
	}
	return command
}

func (w *walker) allocOrder(node *Node) AllocOrder {
	alloc := AllocOrder{Node: node.Name, MemoryBytes: uint64(w.Intn(3)), Tasks: 1}
	for cpu := range node.Inventory.CPUs {
		if (!node.use.cpus.Contains(cpu) || w.chance(1)) && w.chance(40) {
			alloc.CPUs = append(alloc.CPUs, cpu)
		}
	}
	for _, device := range node.Inventory.Devices {
		if (node.use.sharesOf(device.ID) < device.Shares || w.chance(2)) && w.chance(20) {
			alloc.Devices = append(alloc.Devices, DeviceOrder{ID: device.ID, Shares: 1})
		}
	}
	return alloc
}

func (w *walker) activeJob(v *View) (*Job, string) {
	active := inPhases(v, Running, Ending)
	if len(active) == 0 {
		return &Job{ID: uint32(w.Intn(20)), Epoch: 1}, w.node()
	}
	job := active[w.Intn(len(active))]
	return job, job.Run.Allocs[w.Intn(len(job.Run.Allocs))].Node
}

func (w *walker) ready(v *View) Command {
	job, node := w.activeJob(v)
	return AllocsReady{Allocs: []AllocRef{{job.ID, job.Epoch - uint32(w.Intn(10)/9), node}}}
}

func (w *walker) ended(v *View) Command {
	var command AllocsEnded
	for range 1 + w.Intn(3) {
		job, node := w.activeJob(v)
		report := AllocReport{
			Job: job.ID, Epoch: job.Epoch, Node: node, Cause: pb.EndCause(w.Intn(10)),
			PeakMemoryBytes: uint64(w.Intn(1000)), CPUNS: uint64(w.Intn(1000)),
		}
		if w.chance(70) {
			report.Cause = pb.EndCause_END_CAUSE_EXITED
		}
		if w.saves && job.Run != nil && (job.Run.Restore != nil && w.chance(60) || w.chance(3)) {
			report.Cause = pb.EndCause_END_CAUSE_RESTORE_FAILED
		}
		if w.chance(30) {
			report.ExitCode = uint32(w.Intn(256))
			if job.Spec != nil && job.Spec.Checkpoint.Mode != "" && w.chance(60) {
				report.ExitCode = spec.SavedExit
			}
		}
		if w.chance(10) {
			report.Epoch += uint32(w.Intn(3)) - 1
		}
		command.Reports = append(command.Reports, report)
	}
	return command
}

func (w *walker) register(v *View) Command {
	name := w.node()
	if w.chance(15) {
		w.boots[name]++
	}
	command := RegisterNode{Name: name, Inventory: Inventory{
		CPUs: 4, MemoryBytes: 64, BootID: fmt.Sprint(w.boots[name]),
		Devices: []Device{
			{ID: "a", Index: 0, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK},
			{ID: "b", Index: 1, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Shares: 3},
			{ID: "a1", Index: 2, Model: "m", Health: pb.DeviceHealth_DEVICE_HEALTH_OK, Parent: "a"},
		},
	}}
	command.Inventory.ParkBounds = []ParkBound{{BoundMS: 1 + w.Uint32()%62_000}, {Model: "m", Devices: 1, BoundMS: 1 + w.Uint32()%62_000}}[:w.Intn(3)]
	if w.chance(10) { // it has lost something
		command.Inventory.CPUs = uint32(w.Intn(4))
		command.Inventory.Devices = command.Inventory.Devices[:w.Intn(2)]
	}
	for job := range v.JobsOn(name) {
		if w.chance(80) {
			alloc := RunningAlloc{Job: job.ID, Epoch: job.Epoch, Ready: w.chance(50)}
			if w.frozen && w.chance(30) {
				alloc.SuspendNumber, alloc.Frozen = w.suspendNumber(job), w.chance(50)
			}
			command.Running = append(command.Running, alloc)
		}
	}
	return command
}

func (w *walker) policy() Command {
	site := *policy.Default()
	site.MinJobAgeS = 5
	site.MaxJobCount, site.MaxSubmitJobsPerUser = 150, 70
	site.Partitions[0].AllowRootJobs = w.chance(50)
	site.Partitions[0].DefaultTimeS = 60
	site.Accounting = policy.Accounting{EnforceAssociations: w.chance(10), EnforceQOS: w.chance(10), EnforceLimits: w.chance(20), Safe: w.chance(5)}
	if w.chance(70) {
		site.Licenses = []policy.License{{Name: "x", Count: 3}, {Name: "y", Count: 1}}[:1+w.Intn(2)]
	}
	if w.chance(70) {
		site.Partitions = append(site.Partitions, policy.Partition{Name: "gpu", Nodes: "n[1-3],n9", Up: true})
	}
	if w.owners && w.chance(70) {
		site.Owners = []policy.NodeOwner{{Account: "a0", Nodes: "n[0-2]"}, {Account: "a1", Nodes: "n4"}}[:1+w.Intn(2)]
	}
	if w.shares {
		w.preemption(&site)
		w.sharing(&site)
		site.MaxJobCount, site.MaxSubmitJobsPerUser = 250, 120
		site.RequeueExit = []ranges.Range{{First: 1, Last: 40, Step: 1}}
		site.RequeueExitHold = []ranges.Range{{First: 41, Last: 60, Step: 1}}
	}
	if w.mails && w.chance(80) {
		site.Mail = &policy.Mail{Program: "/usr/sbin/sendmail"}
	}
	return ApplyPolicy{Policy: site}
}

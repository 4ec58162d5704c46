package state

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file converts between the records and the scheduler's view of them, both
// ways.

// basicPriority is what the scheduler gives a job without a nice value while no
// factor has a weight (sched.PriorityFactors).
const basicPriority = 1 << 31

// Priority is the priority of a job as far as its record tells: what an
// administrator set, or the basic one. The last plan has the computed one
// (Overlay). 0 means held, as Slurm shows it.
func (j *Job) Priority() uint64 {
	switch {
	case j.Held != sched.NotHeld:
		return 0
	case j.FixedPriority != 0:
		return uint64(j.FixedPriority)
	}
	return uint64(max(basicPriority-int64(j.Spec.Nice), 1))
}

// SchedSnapshot is everything the next plan depends on. nowMS is the leader's
// clock in Unix milliseconds. It lacks what nodes have reported, so no job can
// be saved and none resumes from an image: see SchedSnapshotWith.
func (v *View) SchedSnapshot(nowMS int64) sched.Snapshot {
	return v.SchedSnapshotWith(nowMS, NodeReports{})
}

// SchedSnapshotWith is the SchedSnapshot with what nodes have reported.
func (v *View) SchedSnapshotWith(nowMS int64, told NodeReports) sched.Snapshot {
	snapshot, _ := v.SchedSnapshotAfter(SnapshotMemo{}, nowMS, told)
	return snapshot
}

// SchedSnapshotAfter is the SchedSnapshotWith, made faster by what the one before left. A
// snapshot that was made so is valid until the next but one is made.
func (v *View) SchedSnapshotAfter(memo SnapshotMemo, nowMS int64, told NodeReports) (sched.Snapshot, SnapshotMemo) {
	snapshot, index := v.schedMachines(nowMS, memo.nodes)
	v.schedGuests(&snapshot, index)
	index.saveRate = v.slowestSave()
	next := SnapshotMemo{nodes: index.nodesMemo, waiting: v.schedWaiting(&snapshot, index, told, memo.waiting)}
	next.running = v.schedRunning(&snapshot, index, told, memo.running)
	v.schedUsage(&snapshot, index)
	return snapshot, next
}

// SchedMachines is a SchedSnapshot without the jobs: the nodes, and what is
// free on them.
func (v *View) SchedMachines(nowMS int64) sched.Snapshot {
	snapshot, _ := v.schedMachines(nowMS, nodesMemo{})
	return snapshot
}

// schedIndex finds what the records name in a snapshot.
type schedIndex struct {
	nodesMemo
	owners  ownerIndex
	held    *sched.TRESIndex // what running jobs hold is counted with it
	holding []*Job           // those that hold nodes; schedWaiting finds them
	// saveRate is how many bytes a millisecond the slowest save took.
	saveRate uint64
	accountIndex
}

func (v *View) schedMachines(nowMS int64, before nodesMemo) (sched.Snapshot, *schedIndex) {
	snapshot := sched.Snapshot{NowMS: nowMS}
	index := &schedIndex{nodesMemo: v.schedNodes(&snapshot, before)}
	index.accountIndex = *v.schedAccounts(&snapshot, index.models)
	v.schedShares(&snapshot, index.nodes)
	v.schedPartitions(&snapshot, index)
	index.owners = v.schedOwners(&snapshot)
	return snapshot, index
}

func schedNode(node *Node) place.Node {
	out := place.Node{
		Name:      node.Name,
		Available: node.Available(),
		Busy:      node.use.shared() > 0,
		Exclusive: node.use.exclusive != 0,
	}
	out.Users, out.UserOnly = node.use.userIDs()
	if node.Inventory == nil {
		return out
	}
	out.CPUs = place.FirstCPUs(node.Inventory.CPUs)
	out.FreeCPUs = out.CPUs.Minus(node.use.cpus)
	out.MemoryBytes = node.Inventory.MemoryBytes
	out.FreeMemory, out.ParkedMemory = node.freeMemory(), node.use.parkedMemory
	out.TmpBytes, out.FreeTmp = node.Inventory.TmpBytes, node.freeTmp()
	out.TmpPerCPU, out.TmpOpen = node.Inventory.TmpPerCPU, node.Inventory.TmpUnbounded
	out.Features = node.Inventory.Features
	out.Devices = schedDevices(node)
	return out
}

func schedDevices(node *Node) []place.Device {
	devices := node.Inventory.Devices
	if len(devices) == 0 {
		return nil
	}
	position := make(map[string]place.DeviceIndex, len(devices))
	for i := range devices {
		position[devices[i].ID] = place.DeviceIndex(i)
	}
	out := make([]place.Device, len(devices))
	for i := range devices {
		device := &devices[i]
		model := device.Model
		if i > 0 && model == out[i-1].Model {
			model = out[i-1].Model // the same memory too, which makes comparing them cheap
		}
		d := place.Device{
			ID:      device.ID,
			Index:   device.Index,
			Model:   model,
			Healthy: device.Health == pb.DeviceHealth_DEVICE_HEALTH_OK,
			Parent:  -1,
			Shares:  device.Shares,
			Kept:    node.keepsSome() && node.Reclaim.keepsDevice(device.ID),
		}
		if held := node.use.sharesOf(device.ID); held < device.Shares && !node.use.overlaps(node, device) {
			d.FreeShares = device.Shares - held
		}
		if device.Parent != "" {
			d.Parent = position[device.Parent]
		}
		for _, id := range device.Links {
			if at, known := position[id]; known {
				d.Links = append(d.Links, at)
			}
		}
		slices.Sort(d.Links)
		if len(device.NearCPUs) > 0 {
			d.NearCPUs = place.NewCPUSet(device.NearCPUs...)
		}
		out[i] = d
	}
	return out
}

func (v *View) schedPartitions(snapshot *sched.Snapshot, index *schedIndex) {
	for i := range v.policy.Partitions {
		p := &v.policy.Partitions[i]
		partition := sched.Partition{
			Name:         p.Name,
			Up:           p.Up,
			MaxTimeS:     p.MaxTimeS,
			PriorityTier: p.PriorityTier,
			RootAllowed:  p.AllowRootJobs,
			PrivateOnly:  v.policy.NetworkOf(p) == policy.NetworkPrivateOnly,
			QOS:          int(index.qosNamed(p.QOS)),

			Exclusive:     p.Exclusive == policy.ExclusiveNode,
			ExclusiveUser: p.Exclusive == policy.ExclusiveUser,
		}
		p.FillSched(&partition, snapshot)
		for at := range snapshot.Nodes {
			if p.Has(snapshot.Nodes[at].Name) {
				partition.Nodes = append(partition.Nodes, place.NodeIndex(at))
			}
		}
		snapshot.Partitions = append(snapshot.Partitions, partition)
	}
}

// startable is how many tasks of a record its array's throttle lets start, when
// some were given to other records, and whether that is less than it has.
func (v *View) startable(job *Job, given uint32) (tasks uint32, throttled bool) {
	tasks = job.TaskCount()
	limit := job.Spec.MaxRunning
	if limit == 0 {
		return tasks, false
	}
	running, _ := v.arrayRunning.Get(job.Array)
	left := limit - min(limit, running+given)
	return min(tasks, left), tasks > left
}

func (v *View) schedRunning(snapshot *sched.Snapshot, index *schedIndex, told NodeReports, before runningMemo) runningMemo {
	snapshot.Running = make([]sched.Running, 0, v.active)
	now := before.next(v, snapshot, index)
	over := v.overBorrowers()
	for _, job := range index.holding {
		running := *now.hold(v, job, snapshot, index)
		running.LeavesByMS, running.PausedMS = v.leavesByMS(job), job.Run.pausedMS(snapshot.NowMS)
		running.Ending, running.Requeue, running.LostGPUMS = job.Phase == Ending, job.Spec.Requeue, job.LostBefore().LostGPUMS
		v.schedSaved(job, &running, told)
		job.schedFills(&running, index.saveRate)
		v.schedSuspension(job, &running, snapshot, index)
		running.Owner = v.ownerOf(running.Association, snapshot, index)
		running.OverBorrowed = v.overBorrower(job, over) != ""
		snapshot.Running = append(snapshot.Running, running)
	}
	return now.runningMemo
}

// schedHeld is what a running job holds.
func (v *View) schedHeld(job *Job, snapshot *sched.Snapshot, index *schedIndex) *sched.Running {
	running := index.runningLimits(snapshot, v.policy, job)
	running.Placement = place.Placement{User: job.Owner().UID, UserOnly: job.userOnly()}
	running.Exclusive = job.alone()
	for i := range job.Run.Allocs {
		if alloc := &job.Run.Allocs[i]; !alloc.Released {
			running.Placement.Allocs = append(running.Placement.Allocs, v.schedAllocOf(job, alloc, snapshot.Nodes, index.nodes[alloc.Node]))
		}
	}
	v.schedBeside(job, &running, snapshot, index)
	return &running
}

// schedAllocOf is schedAlloc of a job, which may count among the node's guests.
func (v *View) schedAllocOf(job *Job, alloc *Alloc, nodes []place.Node, at place.NodeIndex) place.Alloc {
	out := schedAlloc(alloc, nodes, at)
	out.Guest = nodes[at].Guests.Bound && !v.OwnersJob(job, alloc.Node)
	return out
}

// schedAlloc leaves out a device that its node has lost: it will not come free.
func schedAlloc(alloc *Alloc, nodes []place.Node, at place.NodeIndex) place.Alloc {
	out := place.Alloc{
		Node:        at,
		MemoryBytes: alloc.MemoryBytes,
		TmpBytes:    alloc.TmpBytes,
		Tasks:       alloc.Tasks,
	}
	if alloc.holdsCPUs() {
		out.CPUs = place.NewCPUSet(alloc.CPUs...)
	}
	if !alloc.Parked {
		out.Devices = schedGrants(alloc, nodes[at].Devices)
	}
	return out
}

// schedGrants are the devices of an allocation that its node has, ascending.
func schedGrants(alloc *Alloc, devices []place.Device) []place.Grant {
	var grants []place.Grant
	for _, held := range alloc.Devices {
		position := 0
		for position < len(devices) && devices[position].ID != held.ID {
			position++
		}
		if position < len(devices) {
			grants = append(grants, place.Grant{Device: place.DeviceIndex(position), Shares: held.Shares})
		}
	}
	slices.SortFunc(grants, func(a, b place.Grant) int { return int(a.Device - b.Device) })
	return grants
}

// PlanToCommand makes the command of a plan, in the order of the plan. The
// snapshot is the one the plan was made from.
func PlanToCommand(snapshot *sched.Snapshot, plan *sched.Plan) PlaceJobs {
	command := PlaceJobs{Starts: make([]StartOrder, 0, len(plan.Starts))}
	for i := range plan.Starts {
		start := &plan.Starts[i]
		order := StartOrder{
			Job:       uint32(start.Job),
			Partition: snapshot.Partitions[start.Partition].Name,
		}
		if snapshot.Priority.Weighs() { // so that the policy has needed the level already
			order.Priority = start.Priority
		}
		order.Fills, order.LimitS = start.Fills, start.LimitS
		order.Image = nextImage(snapshot, start.Job)
		for p := range start.Placement.Allocs {
			order.Allocs = append(order.Allocs, allocOrder(&start.Placement.Allocs[p], snapshot.Nodes))
		}
		command.Starts = append(command.Starts, order)
	}
	return command
}

// allocOrder is what a placement gives on one of its nodes.
func allocOrder(alloc *place.Alloc, nodes []place.Node) AllocOrder {
	node := &nodes[alloc.Node]
	out := AllocOrder{
		Node:        node.Name,
		CPUs:        alloc.CPUs.IDs(),
		MemoryBytes: alloc.MemoryBytes,
		TmpBytes:    alloc.TmpBytes,
		Tasks:       alloc.Tasks,
	}
	for _, grant := range alloc.Devices {
		out.Devices = append(out.Devices, DeviceOrder{ID: node.Devices[grant.Device].ID, Shares: grant.Shares})
	}
	return out
}

// schedBeside adds what the other runs of a job hold. It comes free with the
// job if not before. For limits a job counts once.
func (v *View) schedBeside(job *Job, running *sched.Running, snapshot *sched.Snapshot, index *schedIndex) {
	if len(job.Run.Beside) == 0 {
		return
	}
	allocs := &running.Placement.Allocs
	for _, beside := range job.Run.Beside {
		for i := range beside.Run.Allocs {
			if alloc := &beside.Run.Allocs[i]; !alloc.Released {
				*allocs = append(*allocs, v.schedAllocOf(job, alloc, snapshot.Nodes, index.nodes[alloc.Node]))
			}
		}
	}
	slices.SortFunc(*allocs, func(a, b place.Alloc) int { return int(a.Node - b.Node) })
}

package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// PlaceJobs applies a plan. The plan was made from an older state, so each
// start is checked against the present one, and dropped whole when it no longer
// fits: see Result.Starts. A start of an array's record takes its first task
// and splits it off.
type PlaceJobs struct {
	Starts []StartOrder `cbor:"1,keyasint"`
}

// StartOrder places one job, or one task of an array.
type StartOrder struct {
	Job       uint32       `cbor:"1,keyasint"`
	Partition string       `cbor:"2,keyasint"`
	Allocs    []AllocOrder `cbor:"3,keyasint"` // ascending by node
	// Priority is the computed priority; 0 = basic.
	Priority uint32 `cbor:"5,keyasint,omitempty"`
	// Image is the number of the image from which it resumes; 0 = none.
	Image uint32 `cbor:"10,keyasint,omitempty"`
	// Fills is as in Run.
	Fills bool `cbor:"560,keyasint,omitempty"`
	// LimitS is its time limit, if it is less than what it asks for; 0 = it is not.
	LimitS uint32 `cbor:"561,keyasint,omitempty"`
}

// AllocOrder is what a start takes on one node.
type AllocOrder struct {
	Node        string        `cbor:"1,keyasint"`
	CPUs        []uint32      `cbor:"2,keyasint,omitempty"` // ascending
	MemoryBytes uint64        `cbor:"3,keyasint,omitempty"`
	Devices     []DeviceOrder `cbor:"4,keyasint,omitempty"`
	Tasks       uint32        `cbor:"5,keyasint,omitempty"`
	TmpBytes    uint64        `cbor:"6,keyasint,omitempty"` // of the node's disk; 0 = no bound
}

// DeviceOrder is one device, or shares of one.
type DeviceOrder struct {
	ID     string `cbor:"1,keyasint"`
	Shares uint32 `cbor:"2,keyasint"`
}

func (PlaceJobs) kind() Kind { return KindPlaceJobs }

func (c PlaceJobs) apply(s *State, result *Result) {
	if len(c.Starts) > bounds.MaxStarts {
		result.Refused = refuse(Exhausted, "%d starts in one plan are too many: at most %d", len(c.Starts), bounds.MaxStarts)
		return
	}
	limits := s.newPlacing()
	for i := range c.Starts {
		order := &c.Starts[i]
		answer := StartResult{Asked: order.Job}
		job, run, err := s.checkStart(order)
		if err == nil {
			err = limits.admit(job, run)
		}
		if err != nil {
			answer.Dropped = err.Error()
		} else {
			started := s.start(job, run)
			answer.Job, answer.Epoch = started.ID, started.Epoch
		}
		result.Starts = append(result.Starts, answer)
	}
}

// checkStart returns the run that a start makes, or says why it does not fit
// the present state.
func (s *State) checkStart(order *StartOrder) (*Job, *Run, error) {
	job, known := s.Job(order.Job)
	switch {
	case s.awaited > 0:
		return nil, nil, fmt.Errorf("after a restore %d nodes have not spoken yet", s.awaited)
	case !known:
		return nil, nil, fmt.Errorf("job %d is not known", order.Job)
	case job.Phase != Waiting:
		return nil, nil, fmt.Errorf("job %d does not wait any more", order.Job)
	case s.checkEligible(job) != "":
		return nil, nil, fmt.Errorf("job %d %s", order.Job, s.checkEligible(job))
	case job.TaskCount() > 1 && s.nextJob > bounds.MaxJobID:
		return nil, nil, fmt.Errorf("no job numbers are left")
	}
	if limit := job.Spec.MaxRunning; limit > 0 {
		if running, _ := s.arrayRunning.Get(job.Array); running >= limit {
			return nil, nil, fmt.Errorf("array %d already runs %d tasks", job.Array, running)
		}
	}
	partition, err := s.checkStartPartition(job, order.Partition)
	if err != nil {
		return nil, nil, err
	}
	run := &Run{
		Partition: order.Partition, Priority: order.Priority, StartMS: s.timeMS, Fence: partition.LeaseAction == policy.LeaseFence && job.Spec.Requeue,
		Sharing: partition.Exclusive, Fills: order.Fills,
	}
	if order.Fills && (!partition.BfCheckpoint || !job.mayFill()) {
		return nil, nil, fmt.Errorf("job %d may not start in a hole", order.Job)
	}
	if len(order.Allocs) == 0 {
		return nil, nil, fmt.Errorf("the start names no node")
	}
	if err := job.checkStagedNodes(len(order.Allocs)); err != nil {
		return nil, nil, err
	}
	for i := range order.Allocs {
		if i > 0 && order.Allocs[i-1].Node >= order.Allocs[i].Node {
			return nil, nil, fmt.Errorf("the nodes of the start are not ascending")
		}
		alloc, err := s.checkAlloc(job, partition, &order.Allocs[i])
		if err != nil {
			return nil, nil, err
		}
		run.Allocs = append(run.Allocs, alloc)
	}
	if err := s.resumeFrom(job, run, order.Image); err != nil {
		return nil, nil, err
	}
	if err := s.checkBetween(job, run); err != nil {
		return nil, nil, err
	}
	if err := s.limitRun(job, run, order.LimitS); err != nil {
		return nil, nil, err
	}
	run.Billing = billed(s.policy, partition, run.amounts(job.Spec.Licenses))
	return job, run, checkOneModel(run)
}

func (s *State) checkStartPartition(job *Job, name string) (*policy.Partition, error) {
	partition, known := s.policy.Partition(name)
	switch {
	case !known:
		return nil, fmt.Errorf("partition %s is not known", name)
	case !partition.Up:
		return nil, fmt.Errorf("partition %s is down", name)
	case !slices.Contains(job.Spec.Partitions, name):
		return nil, fmt.Errorf("job %d is not for partition %s", job.ID, name)
	case job.Owner().UID == 0 && !partition.AllowRootJobs:
		return nil, fmt.Errorf("partition %s does not allow jobs of root", name)
	case !allowsNetwork(s.policy, partition, job):
		return nil, fmt.Errorf("partition %s does not allow jobs on the node's network", name)
	}
	return partition, nil
}

// checkAlloc checks one node's share of a start, and makes its allocation.
func (s *State) checkAlloc(job *Job, partition *policy.Partition, order *AllocOrder) (Alloc, error) {
	node, known := s.nodes.Get(order.Node)
	switch {
	case !known || !node.Available():
		return Alloc{}, fmt.Errorf("node %s is not available", order.Node)
	case job.stages() && len(order.Devices) > 0:
		return Alloc{}, fmt.Errorf("job %d copies files, for which it gets no GPUs", job.ID)
	case job.pinnedOff(order.Node):
		return Alloc{}, fmt.Errorf("the files of job %d are on %s", job.ID, nodesText(job.Staged.Nodes))
	case s.keptFrom(job, node):
		return Alloc{}, fmt.Errorf("node %s is reclaimed by its owner", order.Node)
	case !partition.Has(order.Node):
		return Alloc{}, fmt.Errorf("node %s is not in partition %s", order.Node, partition.Name)
	case order.MemoryBytes > node.freeMemory():
		return Alloc{}, fmt.Errorf("node %s does not have enough free memory", order.Node)
	case order.TmpBytes > node.freeTmp():
		return Alloc{}, fmt.Errorf("node %s does not have enough free disk", order.Node)
	}
	if err := checkSharing(job, partition, node); err != nil {
		return Alloc{}, err
	}
	if err := s.checkTerms(job, node, order); err != nil {
		return Alloc{}, err
	}
	for i, cpu := range order.CPUs {
		if cpu >= node.Inventory.CPUs || node.use.cpus.Contains(cpu) || i > 0 && order.CPUs[i-1] >= cpu {
			return Alloc{}, fmt.Errorf("CPU %d of node %s is not free", cpu, order.Node)
		}
	}
	alloc := Alloc{
		Node: order.Node, CPUs: order.CPUs, MemoryBytes: order.MemoryBytes, TmpBytes: order.TmpBytes,
		Tasks: order.Tasks, BootID: node.BootID(),
	}
	use := node.use.clone()
	for _, wanted := range order.Devices {
		held, err := takeDevice(node, use, wanted)
		if err != nil {
			return Alloc{}, err
		}
		alloc.Devices = append(alloc.Devices, held)
	}
	if err := s.checkBound(job, node, &alloc); err != nil {
		return Alloc{}, err
	}
	if node.keepsSome() && node.Reclaim.keeps(&alloc) && !s.OwnersJob(job, node.Name) {
		return Alloc{}, fmt.Errorf("a GPU of node %s is reclaimed by its owner", order.Node)
	}
	slices.SortFunc(alloc.Devices, func(a, b HeldDevice) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID))
	})
	return alloc, nil
}

// takeDevice books one device in use, or says why it is not free. A whole
// device and a slice of it exclude each other.
func takeDevice(node *Node, use *nodeUse, wanted DeviceOrder) (HeldDevice, error) {
	device := node.device(wanted.ID)
	if device == nil || device.Health != pb.DeviceHealth_DEVICE_HEALTH_OK {
		return HeldDevice{}, fmt.Errorf("device %s of node %s is missing or not healthy", wanted.ID, node.Name)
	}
	if wanted.Shares == 0 || wanted.Shares > device.Shares || use.sharesOf(device.ID) > device.Shares-wanted.Shares || use.overlaps(node, device) {
		return HeldDevice{}, fmt.Errorf("device %s of node %s is not free", wanted.ID, node.Name)
	}
	held := HeldDevice{
		ID: device.ID, Index: device.Index, Shares: wanted.Shares, Parent: device.Parent, Model: device.Model,
	}
	use.addDevice(held)
	return held, nil
}

// overlaps reports whether the device's parent, or a slice of the device, is held.
func (u *nodeUse) overlaps(node *Node, device *Device) bool {
	if device.Parent != "" && u.sharesOf(device.Parent) > 0 {
		return true
	}
	for i := range node.Inventory.Devices {
		other := &node.Inventory.Devices[i]
		if other.Parent == device.ID && u.sharesOf(other.ID) > 0 {
			return true
		}
	}
	return false
}

func checkOneModel(run *Run) error {
	model, seen := "", false
	for i := range run.Allocs {
		for _, device := range run.Allocs[i].Devices {
			if seen && device.Model != model {
				return fmt.Errorf("the start mixes GPUs of models %s and %s", model, device.Model)
			}
			model, seen = device.Model, true
		}
	}
	return nil
}

// start stores the run of a job. The first task of a record with several is
// split off and runs under its own number; the last one keeps the record's.
func (s *State) start(job *Job, run *Run) *Job {
	started := *job
	started.Phase = Running
	started.Epoch = max(job.Epoch, s.epochFloor) + 1
	started.Run = run
	started.Network = DecidedNetwork(s.networkFor(job, run))
	s.giveBetween(job, run)
	if job.Saved != nil {
		run.Numbered = job.Saved.Number
	}
	started.Detail = ""
	started.Dependencies = job.Dependencies.afterStart()
	if job.Array == 0 || job.HasTask {
		s.putJob(&started)
		return &started
	}
	first := job.Tasks[0].First
	one := []ranges.Range{{First: first, Last: first, Step: 1}}
	if job.TaskCount() > 1 {
		return s.split(job, &started, ranges.Subtract(job.Tasks, one), one)
	}
	started.HasTask, started.Task, started.Tasks = true, first, nil
	s.putJob(&started)
	return &started
}

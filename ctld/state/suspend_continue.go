package state

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// ContinueJobs lets suspended jobs continue with the CPUs that they had. The
// plan was made from an older state, so each is checked against the present
// one, and stays suspended if they are not free: see Result.Continued.
type ContinueJobs struct {
	Orders []ContinueOrder `cbor:"1,keyasint"`
}

// ContinueOrder is one job that should continue. Number is that of the order by
// which it is stopped: a plan about an earlier suspension no longer counts.
type ContinueOrder struct {
	Job    uint32 `cbor:"1,keyasint"`
	Epoch  uint32 `cbor:"2,keyasint"`
	Number uint32 `cbor:"3,keyasint"`
}

// ContinueResult is the outcome of one order.
type ContinueResult struct {
	Job, Epoch uint32
	Dropped    string // why it stays suspended; "" = it continues
}

func (ContinueJobs) kind() Kind { return KindContinueJobs }
func (c ContinueJobs) apply(s *State, result *Result) {
	if len(c.Orders) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d jobs in one plan are too many: at most %d", len(c.Orders), bounds.MaxTargets)
		return
	}
	for i := range c.Orders {
		order := &c.Orders[i]
		answer := ContinueResult{Job: order.Job, Epoch: order.Epoch}
		job, err := s.checkContinue(order)
		if err != nil {
			answer.Dropped = err.Error()
		} else {
			s.putJob(s.continued(job))
		}
		result.Continued = append(result.Continued, answer)
	}
}

func (s *State) checkContinue(order *ContinueOrder) (*Job, error) {
	job, known := s.Job(order.Job)
	switch {
	case s.awaited > 0:
		return nil, fmt.Errorf("after a restore %d nodes have not spoken yet", s.awaited)
	case !known || !job.Suspended() || job.Epoch != order.Epoch || job.Run.SuspendNumber != order.Number:
		return nil, fmt.Errorf("job %d is not suspended any more as it was", order.Job)
	case job.Run.Suspension.Held:
		return nil, fmt.Errorf("job %d is suspended by an administrator", order.Job)
	}
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, known := s.nodes.Get(alloc.Node)
		if !known || node.Inventory == nil || node.NotResponding {
			return nil, fmt.Errorf("node %s does not respond", alloc.Node)
		}
		if s.keptFrom(job, node) {
			return nil, fmt.Errorf("node %s is reclaimed by its owner", alloc.Node)
		}
		if !alloc.Frozen {
			continue // it has its CPUs still
		}
		if len(node.Strays) > 0 {
			return nil, fmt.Errorf("node %s still ends what is no longer its own", alloc.Node)
		}
		for _, cpu := range alloc.CPUs {
			if cpu >= node.Inventory.CPUs || node.use.cpus.Contains(cpu) {
				return nil, fmt.Errorf("CPU %d of node %s is not free", cpu, alloc.Node)
			}
		}
		if alloc.Parked {
			if err := s.checkUnpark(job, alloc, node); err != nil {
				return nil, err
			}
		}
	}
	return job, nil
}

// checkUnpark says which of its devices a parked allocation cannot have back, or
// with whom its job must not share the node.
func (s *State) checkUnpark(job *Job, alloc *Alloc, node *Node) error {
	if err := checkJoining(job, node, job.alone(), job.userOnly()); err != nil {
		return err
	}
	use := node.use.clone()
	for _, held := range alloc.Devices {
		if _, err := takeDevice(node, use, DeviceOrder{ID: held.ID, Shares: held.Shares}); err != nil {
			return err
		}
	}
	return nil
}

// continued is a suspended job that continues. Its usage meanwhile is charged.
func (s *State) continued(job *Job) *Job {
	s.chargeUsage(job)
	if saving := job.Saving(); saving != nil && saving.Purpose == SavePack {
		job = s.withoutSave(job, "it continues where it was parked")
	}
	next, _ := job.withAlloc("")
	run := next.Run
	if packed := run.Suspension.Packed; packed != 0 {
		run.Abandoned = packed // it is frozen by that too
	}
	for i := range run.Allocs {
		alloc := &run.Allocs[i]
		alloc.Frozen, alloc.Parked, alloc.ParkByMS = false, false, 0
		s.notGuest(job.ID, job.Epoch, alloc.Node)
	}
	run.TurnMS = s.timeMS
	run.SuspendNumber++
	run.Suspension = nil
	run.Relimited = run.Relimited || next.endsByDeadline() // which has come nearer
	return next
}

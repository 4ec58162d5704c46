package node

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Shim is one allocation on its node: the directory on its disk, the supervisor, and
// the container. What it decides, package supervise decides, as for the real one.
type Shim struct {
	Node  *Node
	Key   registry.Key
	Order *pb.StartAlloc
	Core  supervise.Alloc
	Alive bool    // the supervisor runs
	Began bool    // its processes have run
	Image *Image  // from which it resumes; nil = from the script
	Sees  []Shown // its devices
	// Why says how a restore or a save ended, when that happens.
	Why    string
	Result *pb.AllocEnded // on its disk

	starts func()         // is done once the lease lets it start; nil = it was, or is not time yet
	made   bool           // the container is there
	told   supervise.Told // of which its daemon
	saidBy time.Duration  // when what it said last is heard
	looks  int            // what was planned for an earlier look is void
	runs   bool           // its processes
	ranAt  time.Duration  // when they began to run last
	saving *save          // the work on Core.Now
	parks  int            // what was planned for an earlier look at parking is void
	denied bool           // the kernel refuses it its devices

	ends       pb.EndCause // why it was told to end
	concluding bool        // its result is being written
	mine       []*Image    // that were made of it

	script Script
	left   time.Duration // of the script's work
	since  time.Duration // true time from which it has run on, while it runs
	turn   int           // what was planned for an earlier turn is void
}

// launch makes an allocation's directory and starts its supervisor.
func (n *Node) launch(order *pb.StartAlloc, taken time.Duration) *Shim {
	s := &Shim{Node: n, Key: registry.KeyOf(order.GetAlloc()), Order: order, Alive: true, script: n.World.Script(order)}
	s.Core = supervise.Alloc{
		ID: order.GetAlloc(), Gang: order.GetGang(), Host: s.IsBatch(), Restored: order.GetRestore() != nil,
		Lease: lease.Lease{Fence: order.GetLeaseAction() == lease.Fence, Begun: taken},
	}
	if order.GetNetwork() != "" { // between its nodes; nothing is sent over it here
		s.Core.NetworkEnd = &pb.NetworkEnd{PublicKey: make([]byte, 32), Port: 1, Mtu: 1440}
	}
	s.left = s.script.Work - s.script.Done
	n.Shims[s.Key] = s
	s.seesFrom(nil)
	n.World.Happens(Launched, s)
	s.After(n.between(20*time.Millisecond, 500*time.Millisecond), func() {
		if order.GetRestore() != nil && !s.Core.Ending {
			s.fetch()
			return
		}
		s.whenLeased(s.makeContainer)
	})
	return s
}

// whenLeased does something, with which the allocation starts, once the lease lets it.
func (s *Shim) whenLeased(start func()) {
	s.starts = start
	s.tryStart()
}

func (s *Shim) tryStart() {
	if s.starts == nil || !s.Alive || s.Core.Ending {
		return
	}
	switch s.Core.Start(s.Node.Boottime()) {
	case lease.Run:
		start := s.starts
		s.starts = nil
		start()
	case lease.Remove:
		s.loseLease()
	}
}

// makeContainer has the container there, from now on.
func (s *Shim) makeContainer() {
	s.made = true
	s.settle()
	s.look()
}

// After plans something that this supervisor does.
func (s *Shim) After(delay time.Duration, do func()) {
	s.Node.World.After(delay, func() {
		if s.Alive {
			do()
		}
	})
}

// tell tells the daemon what is new to it.
func (s *Shim) tell() {
	for _, event := range s.told.News(&s.Core, s.Core.Checkpointable, nil) {
		s.Node.Daemon.told(s, event)
	}
}

// carryOut does what was decided.
func (s *Shim) carryOut(do supervise.Do) {
	if do.Abort != nil && s.saving != nil {
		s.saving.wait++
		s.took(s.saving, do.Abort)
	}
	if do.StopPark != nil {
		s.stopPark(do.StopPark)
	}
	if do.Freeze {
		s.Core.Froze()
		s.settle()
	}
	if do.Resume {
		s.thawAfterSave()
	}
	if do.Begin != nil {
		s.beginSave(do.Begin)
	}
	if do.Tell || do.Freeze || do.Thaw {
		s.tell()
	}
}

// obey takes an order that the daemon passes on.
func (s *Shim) obey(order *pb.ControllerMessage) {
	switch what := order.GetWhat().(type) {
	case *pb.ControllerMessage_ReleaseBatch:
		s.release()
	case *pb.ControllerMessage_EndAlloc:
		s.end(time.Duration(what.EndAlloc.GetGraceS())*time.Second, registry.EndCause(what.EndAlloc))
	case *pb.ControllerMessage_SuspendAlloc:
		s.suspend(what.SuspendAlloc)
	case *pb.ControllerMessage_SaveAlloc:
		s.carryOut(s.Core.Save(what.SaveAlloc))
	}
}

// renew takes what a controller answered to a request for the lease.
func (s *Shim) renew(renewed *pb.LeaseRenewed) {
	s.Core.Renew(renewed)
	s.look()
}

// suspend takes an order to suspend the job, or to resume it.
func (s *Shim) suspend(order *pb.SuspendAlloc) {
	do := s.Core.Suspend(order, s.Node.Boottime())
	if do.Tell && s.Core.Awaits {
		s.resume()
	}
	s.look()
	s.carryOut(do)
	s.planDeadline()
	s.lookPark()
}

// release starts a gang's script, or has an allocation resume that is restored.
func (s *Shim) release() {
	switch s.Core.StartBatch() {
	case supervise.BatchResume:
		s.Core.Released = true
		s.resume()
	case supervise.BatchStart:
		s.Core.Released = true
		if s.runs {
			s.turn++
			s.since = s.Node.World.Now()
			s.work()
		}
	}
}

// end ends the container: at once, or after as much of the grace as its
// processes take. Without a lease there is none.
func (s *Shim) end(grace time.Duration, cause pb.EndCause) {
	if s.Core.Ending || s.Result != nil {
		return
	}
	s.Core.Ending, s.ends = true, cause
	s.carryOut(s.Core.StopSaves())
	if s.Core.Up && s.Core.End(s.Node.Boottime()) {
		s.thawAfterSave()
	} else {
		grace = 0 // it may run elsewhere, or has not begun
	}
	delay := s.Node.between(0, grace)
	if now := s.Node.Boottime(); s.Core.Lease.Fence {
		delay = min(delay, s.Node.InTrue(max(0, s.Core.Lease.End-now)))
	}
	delay += s.Node.between(5*time.Millisecond, 100*time.Millisecond)
	s.killAfter(delay, cause)
}

// killAfter kills what is left of an allocation that ends.
func (s *Shim) killAfter(delay time.Duration, cause pb.EndCause) {
	s.After(delay, func() {
		if s.Result == nil && !s.concluding {
			s.kill()
			s.conclude(cause)
		}
	})
}

func (s *Shim) loseLease() {
	s.Node.trace("allocation %s may not run here any more", s.Key)
	s.end(0, pb.EndCause_END_CAUSE_LEASE_ENDED)
}

// conclude writes the result, when nothing of the allocation is left.
func (s *Shim) conclude(cause pb.EndCause) {
	s.Core.Ending, s.concluding = true, true
	s.After(s.Node.between(time.Millisecond, 50*time.Millisecond), func() {
		s.Result = &pb.AllocEnded{Alloc: s.Key.Message(), Cause: cause}
		if cause == pb.EndCause_END_CAUSE_EXITED && s.IsBatch() {
			s.Result.ExitCode = s.Node.World.ExitCode(s)
		}
		s.Alive = false
		s.Node.World.Happens(Ended, s)
		s.Node.Daemon.shimEnded(s)
	})
}

// Die is a kill of the supervisor: its job dies with it, by the kernel.
func (s *Shim) Die() {
	if !s.Alive {
		return
	}
	s.Alive = false
	s.kill()
	s.Node.Daemon.shimEnded(s)
}

// kill ends the allocation's processes.
func (s *Shim) kill() {
	s.turn++
	s.Core.Froze()
	if s.runs {
		s.rest()
	}
}

// recover cleans up after a supervisor that died without a result.
func (s *Shim) recover() *pb.AllocEnded {
	if s.Result == nil {
		s.Result = &pb.AllocEnded{Alloc: s.Key.Message(), Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
		s.Node.World.Happens(Ended, s)
	}
	return proto.CloneOf(s.Result)
}

// Index is the allocation's, among those of its run.
func (s *Shim) Index() int {
	return slices.IndexFunc(s.Order.GetAllocation(), func(a *pb.NodeAllocation) bool { return a.GetNode() == s.Node.Name })
}

// Share is what the allocation has of its node.
func (s *Shim) Share() *pb.NodeAllocation {
	if i := s.Index(); i >= 0 {
		return s.Order.GetAllocation()[i]
	}
	return nil
}

// IsBatch says whether its node runs the script.
func (s *Shim) IsBatch() bool { return s.Order.GetNode() == s.Order.GetBatchHost() }

// IsFrozen says whether the allocation is frozen by an order to suspend it.
func (s *Shim) IsFrozen() bool {
	return s.Alive && s.Core.Ready && !s.Core.Ending && s.Core.Lease.Suspended && !s.Core.Lease.Runs
}

// mayRun says whether its lease lets it run, if only to end.
func (s *Shim) mayRun() bool { return s.Core.MayRun(s.Node.Boottime()) }

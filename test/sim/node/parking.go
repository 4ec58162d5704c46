package node

import (
	"errors"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// errDriver is why an attempt to park fails.
var errDriver = errors.New("the driver of the GPUs refuses")

// lookPark carries out what parking asks for, and plans to look again.
func (s *Shim) lookPark() {
	if !s.Alive || s.Result != nil {
		return
	}
	now := s.Node.Boottime()
	if s.Core.Overdue(now) {
		s.reclaim()
		return
	}
	do := s.Core.LookPark(now)
	s.carryOut(do)
	switch {
	case do.Park:
		s.takeAway()
	case do.Unpark:
		s.giveBack()
	case do.Again:
		s.lookParkIn(lookAgain)
	}
}

// planDeadline looks again when the allocation is killed that is not parked.
func (s *Shim) planDeadline() {
	n := s.Node
	if left := s.Core.Park.Kill - n.Boottime(); left > 0 {
		s.After(n.InTrue(left)+n.between(0, 5*time.Millisecond), s.lookPark)
	}
}

func (s *Shim) lookParkIn(delay time.Duration) {
	s.parks++
	look := s.parks
	s.After(delay, func() {
		if look == s.parks {
			s.lookPark()
		}
	})
}

// takeAway takes the allocation's devices from it: its GPUs' memory is copied, which takes as
// long as it takes and may fail; then it is frozen, and the kernel refuses it the devices.
func (s *Shim) takeAway() {
	n := s.Node
	s.parks++
	attempt, delay := s.parks, n.between(20*time.Millisecond, 3*time.Second)
	if n.World.Rand().IntN(16) == 0 {
		delay = n.between(10*time.Second, 10*time.Minute) // a driver that hangs
	}
	if s.Core.RunToPark(n.Boottime()) {
		s.denied = false
		s.settle()
	}
	s.After(delay, func() {
		switch {
		case attempt != s.parks || s.Core.Ending:
		case n.World.Rand().IntN(8) == 0:
			s.tookDevices(errDriver)
		default:
			s.denied = true
			s.Core.Froze()
			s.settle()
			s.tookDevices(nil)
		}
	})
}

func (s *Shim) tookDevices(failure error) {
	s.parks++
	s.carryOut(s.Core.TookDevices(failure, supervise.RefusalPasses, s.Node.Boottime()))
	if failure == nil {
		s.Node.trace("allocation %s is parked", s.Key)
		s.Node.World.Happens(Parked, s)
	} else {
		s.Node.trace("allocation %s is not parked: %v", s.Key, failure)
	}
	s.look()
	s.lookPark()
}

// stopPark ends an attempt, a little later.
func (s *Shim) stopPark(why error) {
	s.parks++
	attempt := s.parks
	s.After(s.Node.between(0, 50*time.Millisecond), func() {
		if attempt == s.parks && !s.Core.Ending {
			s.tookDevices(why)
		}
	})
}

// giveBack gives the allocation its devices back. After that it may run.
func (s *Shim) giveBack() {
	s.After(s.Node.between(time.Millisecond, 50*time.Millisecond), func() {
		if s.Core.Ending {
			return
		}
		s.denied = false
		s.Node.World.Happens(Unparked, s)
		s.carryOut(s.Core.GaveDevices(nil, s.Node.Boottime()))
		if s.Core.Awaits {
			s.resume()
		}
		s.look()
		s.lookPark()
	})
}

// reclaim kills an allocation that is not parked in time.
func (s *Shim) reclaim() {
	s.Node.trace("allocation %s was not parked in time", s.Key)
	if s.Core.Ending {
		s.killAfter(0, s.ends) // what was asked for first
		return
	}
	s.end(0, pb.EndCause_END_CAUSE_RECLAIMED)
}

// IsParked says whether its devices are the owner's.
func (s *Shim) IsParked() bool { return s.Alive && s.denied }

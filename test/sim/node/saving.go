package node

import (
	"errors"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// save is the work on one image: a model of what noded/shim does in each step.
type save struct {
	*supervise.Save
	begun   time.Duration
	done    time.Duration
	frozen  time.Duration // since when the allocation has been frozen for it
	image   *Image        // in its store; nil = not yet
	failure error
	wait    int // what was planned for an earlier step is void
}

// Why the work on an image fails.
var (
	errFull       = errors.New("no room for what the job holds in memory")
	errConnection = errors.New("a connection to another machine is open")
	errNoLease    = errors.New("the lease of the job has ended")
	errLate       = errors.New("it was not done in time")
)

// beginSave starts to make an image.
func (s *Shim) beginSave(decided *supervise.Save) {
	n := s.Node
	x := &save{Save: decided, begun: n.World.Now()}
	s.saving = x
	n.World.Happens(SaveBegins, s)
	s.step(x, n.between(10*time.Millisecond, time.Second), func() {
		if x.failure = s.Core.MaySave(); x.failure != nil {
			s.saveOver(x)
			return
		}
		s.take(x, supervise.StepMark)
	})
}

// step plans the rest of a step of a save, unless that is ended by then.
func (s *Shim) step(x *save, delay time.Duration, do func()) {
	x.wait++
	wait := x.wait
	s.After(delay, func() {
		if s.saving == x && wait == x.wait {
			do()
		}
	})
}

// took takes the step that follows the present one.
func (s *Shim) took(x *save, failure error) {
	if x.failure == nil {
		x.failure = failure
	}
	s.take(x, x.Step.Next(x.failure != nil, x.WantsFrozen()))
}

// take takes a step of a save.
func (s *Shim) take(x *save, step supervise.Step) {
	x.Step = step
	switch step {
	case supervise.StepMark:
		if s.Node.Full {
			s.took(x, errFull)
			return
		}
	case supervise.StepFreeze:
		s.Core.Held = true
		s.settle()
		x.done, x.frozen = s.Done(), s.Node.World.Now()
	case supervise.StepDump:
		s.dump(x)
		return
	case supervise.StepResume:
		x.RunsOn()
		s.thawAfterSave()
	case supervise.StepPack:
		s.pack(x)
		return
	case supervise.StepSettle:
		if !x.Settled(x.image != nil) {
			x.RunsOn()
			s.thawAfterSave()
		}
	case supervise.StepOver:
		s.saveOver(x)
		return
	}
	s.took(x, nil)
}

// dump writes what runs, while it is frozen.
func (s *Shim) dump(x *save) {
	n := s.Node
	if !s.mayRun() {
		s.took(x, errNoLease)
		return
	}
	s.step(x, n.between(50*time.Millisecond, 4*time.Second), func() {
		failure := x.Dumped()
		if failure == nil && n.World.Rand().IntN(8) == 0 {
			failure = errConnection
		}
		s.took(x, failure)
	})
}

// pack brings the image into its store, where it is durable.
func (s *Shim) pack(x *save) {
	n := s.Node
	delay, limit := n.between(100*time.Millisecond, 20*time.Second), time.Duration(x.Order.GetTimeoutS())*time.Second
	if n.World.Rand().IntN(20) == 0 {
		delay = n.between(time.Minute, 40*time.Minute) // a disk that hangs
	}
	if n.Broken.SavedEarly {
		s.step(x, delay/2, func() {
			i := s.newImage(x)
			s.After(delay/2, func() { i.Node.store(i.Store)[i.Digest] = i })
			x.image = i
			s.took(x, nil)
		})
		return
	}
	s.step(x, min(delay, limit), func() {
		switch {
		case delay > limit:
			s.took(x, errLate)
			return
		case n.Full:
			s.took(x, errFull)
			return
		}
		i := s.newImage(x)
		i.Node.store(i.Store)[i.Digest] = i
		s.step(x, n.between(0, 20*time.Millisecond), func() {
			x.image = i
			s.took(x, nil)
		})
	})
}

// storeFor is the store that an order names, if the machine reaches it.
func (s *Shim) storeFor(order *pb.SaveAlloc) string {
	if order.GetStore() != "" && s.Node.Shared != nil {
		return order.GetStore()
	}
	return ""
}

// saveOver notes how a save ended, and begins the one that waits.
func (s *Shim) saveOver(x *save) {
	n := s.Node
	var image *pb.Image
	if x.image != nil {
		image = x.image.Message()
	}
	result := s.Core.Outcome(x.Save, image, x.failure)
	result.PackMs = uint32((n.World.Now() - x.begun).Milliseconds())
	s.saving = nil
	do := s.Core.Saved(result)
	if image != nil {
		n.trace("allocation %s is saved as image %d at %v, and is frozen: %t", s.Key, result.Number, x.done, result.Frozen)
		n.World.Happens(Saved, s)
	} else {
		n.trace("allocation %s is not saved as image %d: %s", s.Key, result.Number, result.Error)
		n.World.Happens(NotSaved, s)
	}
	s.carryOut(do)
}

// firstCheckpointable says whether the allocation can be saved, before that was tried.
func (s *Shim) firstCheckpointable() *pb.AllocCheckpointable {
	checkpointable := &pb.AllocCheckpointable{Alloc: s.Key.Message(), Checkpointable: pb.Checkpointable_CHECKPOINTABLE_LIKELY}
	switch mode := s.Order.GetSpec().GetCheckpoint().GetMode(); {
	case mode == "none" || mode == "app":
		checkpointable.Checkpointable, checkpointable.Reason = pb.Checkpointable_CHECKPOINTABLE_NO, "it was submitted with --checkpoint="+mode
	case !s.Node.CRIU:
		checkpointable.Checkpointable, checkpointable.Reason = pb.Checkpointable_CHECKPOINTABLE_NO, "the node has no CRIU"
	}
	return checkpointable
}

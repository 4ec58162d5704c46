package node

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fetch brings the image from which an allocation resumes to its node. It is restored
// then, once the lease lets it. Nothing of the allocation has run when that fails.
func (s *Shim) fetch() {
	n, want := s.Node, s.Order.GetRestore()
	n.World.Happens(RestoreBegins, s)
	s.After(n.between(50*time.Millisecond, 10*time.Second), func() {
		if i, _ := n.reach(want); i != nil {
			s.whenLeased(func() { s.restore(i) })
			return
		}
		// It is asked for again for a while: a controller may just have gone.
		s.After(n.between(5*time.Second, 30*time.Second), func() {
			switch i, property := n.reach(want); {
			case i != nil:
				s.whenLeased(func() { s.restore(i) })
			case property == storeProperty:
				s.restoreFails(pb.EndCause_END_CAUSE_IMAGE_AWAY, "the image did not come")
			default:
				s.restoreFails(pb.EndCause_END_CAUSE_RESTORE_FAILED, "image: no such image")
			}
		})
	})
}

func (s *Shim) restore(i *Image) {
	n := s.Node
	s.After(n.between(50*time.Millisecond, 5*time.Second), func() {
		if s.Core.Ending {
			return
		}
		if why := s.whyNot(i); why != "" {
			s.restoreFails(pb.EndCause_END_CAUSE_RESTORE_FAILED, why)
			return
		}
		if misfits := s.seesFrom(i); len(misfits) > 0 {
			n.World.Fail("other devices: allocation %s was given %v on %s, and %s needs %v", s.Key, s.ownDevices(), n.Name, i, i.Devices)
			return
		}
		s.Image, s.left = i, s.left-i.Done
		if s.Order.GetGang() {
			s.Core.Await()
			n.World.Happens(Restored, s)
			s.tell()
			s.lookPark()
		}
		s.resume()
	})
}

// whyNot is why a restore fails here; "" = it does not.
func (s *Shim) whyNot(i *Image) string {
	n := s.Node
	switch {
	case i.Key.Job != s.Key.Job || i.Key.Epoch >= s.Key.Epoch:
		return "image: it is of another run"
	case i.Damaged || i.Spoiled:
		return "image: a chunk is not what it was"
	case i.Node.Kernel != n.Kernel || !n.CRIU:
		return "kernel"
	case i.Hopeless:
		return "criu does not restore it"
	case n.World.Rand().IntN(12) == 0:
		return "criu did not come to an end"
	}
	return ""
}

// resume lets restored processes run: those of an allocation of several when all are
// restored and nothing else is in the way.
func (s *Shim) resume() {
	switch {
	case s.made || s.Core.Ending || s.Core.Awaits && !s.Core.Awaited():
	case !s.mayRun():
		s.restoreFails(pb.EndCause_END_CAUSE_RESTORE_FAILED, "its lease is over")
	default:
		s.makeContainer()
	}
}

func (s *Shim) restoreFails(cause pb.EndCause, why string) {
	n := s.Node
	if s.Core.Ending {
		return
	}
	n.trace("allocation %s is not restored from image %d: %s", s.Key, s.Order.GetRestore().GetNumber(), why)
	n.World.Happens(RestoreFailed, s)
	if n.Broken.RunsAnyway {
		s.Core.Lease.Runs = true
		s.makeContainer()
		return
	}
	s.conclude(cause)
}

package ordered

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fetch brings the image from which a part goes on to its node, and restores it:
// a model of noded/shim's. Nothing of the part has run when that fails.
func (s *shim) fetch() {
	w, want := s.m.w, s.order.GetRestore()
	w.ambush(s, inRestore)
	s.after(between(w.rng, 50*time.Millisecond, 10*time.Second), func() {
		i, _ := s.m.reach(want)
		if i == nil {
			// It is asked for again for a while: a controller may just have gone.
			s.after(between(w.rng, 5*time.Second, 30*time.Second), func() {
				if i, _ := s.m.reach(want); i != nil {
					s.restore(i)
				} else {
					s.restoreFails("image: no such image")
				}
			})
			return
		}
		s.restore(i)
	})
}

func (s *shim) restore(i *image) {
	w := s.m.w
	s.after(between(w.rng, 50*time.Millisecond, 5*time.Second), func() {
		switch {
		case s.ending:
		case i.key.job != s.key.job || i.key.epoch >= s.key.epoch:
			s.restoreFails("image: it is of another run")
		case i.damaged || i.spoiled:
			s.restoreFails("image: a chunk is not what it was")
		case i.node.kernel != s.m.kernel || !s.m.criu:
			s.restoreFails("kernel")
		case w.rng.IntN(12) == 0 && !w.quiet:
			s.restoreFails("criu did not come to an end")
		case s.lease.Fence && !s.mayRun():
			s.restoreFails("its lease is over")
		default:
			s.image, s.left = i, s.left-i.done
			if s.order.GetGang() {
				s.awaitOthers()
				return
			}
			s.made = true
			s.look()
		}
	})
}

// awaitOthers tells that a part of several is restored. It stands until all are.
func (s *shim) awaitOthers() {
	s.ready = true
	s.m.w.truth.there(s)
	s.m.daemon.shimReady(s)
	s.m.daemon.shimSuspended(s)
	s.goOn()
}

// awaits says whether it does that. One that is suspended meanwhile goes on awaiting.
func (s *shim) awaits() bool {
	return s.ready && !s.made
}

// goOn lets a part of several go on, if all are restored and nothing else is in the
// way.
func (s *shim) goOn() {
	switch {
	case !s.released && !s.m.w.broken.GoesOnAlone || s.lease.Suspended:
	case !s.mayRun():
		s.restoreFails("its lease is over")
	default:
		s.made = true
		s.look()
	}
}

func (s *shim) restoreFails(why string) {
	w := s.m.w
	if s.ending {
		return
	}
	w.RestoresFailed++
	w.trace(s.m.name, "part %s is not restored from image %d: %s", s.key, s.order.GetRestore().GetNumber(), why)
	w.truth.excuse(s.key.job, "a restore failed")
	if w.broken.RunsAnyway {
		s.made = true
		s.look()
		return
	}
	s.conclude(pb.EndCause_END_CAUSE_RESTORE_FAILED)
}

// askRestore answers whether this node could go on with an image.
func (d *daemon) askRestore(order *pb.AskRestore) {
	delay := between(d.w.rng, time.Millisecond, 3*time.Second)
	if d.w.rng.IntN(16) == 0 {
		delay = between(d.w.rng, time.Second, time.Minute)
	}
	d.after(delay, func() {
		property, reason := d.misfit(order)
		d.send(&pb.NodeMessage{What: &pb.NodeMessage_RestoreAnswer{RestoreAnswer: &pb.RestoreAnswer{
			Token: order.GetToken(), Can: property == "", Property: property, Reason: reason,
		}}})
	})
}

func (d *daemon) misfit(order *pb.AskRestore) (property, reason string) {
	gpus := 0
	for _, model := range order.GetDeviceModels() {
		if model == d.m.model {
			gpus++
		}
	}
	switch {
	case !d.m.criu:
		return "CRIU", "it has none"
	case gpus < len(order.GetDeviceModels()) || gpus > int(d.m.gpus):
		return "GPU", "not as many of that model"
	}
	i, property := d.m.reach(order.GetImage())
	switch {
	case property != "":
		return property, "no such image"
	case i.spoiled:
		return "image", "its manifest is not one"
	case i.node.kernel != d.m.kernel:
		return "kernel", "it is another"
	}
	return "", ""
}

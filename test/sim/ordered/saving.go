package ordered

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"google.golang.org/protobuf/proto"
)

// saves is what a supervisor knows of the images of its part: a model of
// noded/shim's.
type saves struct {
	now    *save
	next   *pb.SavePart  // begins when that is over
	last   *pb.PartSaved // how the newest ended; it lies on the disk
	stands *save         // by which the part stands
	grade  pb.SaveGrade
	why    string
}

// save is one image being made.
type save struct {
	order   *pb.SavePart
	begun   time.Duration
	dumping bool
	ranOn   bool
	taken   bool // back, while it was dumped
	done    time.Duration
	stood   time.Duration // since when the part has stood for it
}

const takenBack = "the save was taken back"

// takeSave takes an order to save the part, to take that back, or to let it go on.
func (s *shim) takeSave(order *pb.SavePart) {
	v, number := &s.saves, order.GetNumber()
	switch {
	case order.GetAbandon() && v.now != nil:
		if number >= v.now.order.GetNumber() {
			if v.now.dumping {
				v.now.taken = true
			} else {
				s.saveOver(v.now, nil, takenBack)
			}
		}
		if v.now != nil && number >= v.next.GetNumber() {
			v.next = order
		}
	case order.GetAbandon():
		s.takeBack(order)
	case v.now != nil && number == v.now.order.GetNumber():
		v.now.order = order
	case v.now != nil && number > v.now.order.GetNumber():
		if number >= v.next.GetNumber() { // else it was late on its way
			v.next = order
		}
	case v.now != nil: // older than what is under way: its outcome was told
	case v.last.GetNumber() >= number:
		if order.GetThen() == pb.SaveThen_SAVE_THEN_GO_ON && v.last.GetNumber() == number {
			s.standNoMore()
		}
		s.m.daemon.shimSaved(s)
	default:
		s.standNoMore()
		s.beginSave(order)
	}
}

func (s *shim) takeBack(order *pb.SavePart) {
	if x := s.saves.stands; x != nil && order.GetNumber() < x.order.GetNumber() {
		return // it is late: the part stands for a later one
	}
	s.standNoMore()
	if order.GetNumber() > s.saves.last.GetNumber() {
		s.saves.last = &pb.PartSaved{Part: s.key.id(), Number: order.GetNumber(), Error: takenBack}
		s.m.daemon.shimSaved(s)
	}
}

// standNoMore lets a part go on that stands with its image.
func (s *shim) standNoMore() {
	if s.saves.stands == nil {
		return
	}
	s.saves.stands = nil
	s.saves.last = proto.CloneOf(s.saves.last)
	s.saves.last.Stands = false
	s.letGo()
	s.m.daemon.shimSaved(s)
}

func (s *shim) letGo() {
	s.held = false
	s.settle()
}

// beginSave starts to make an image.
func (s *shim) beginSave(order *pb.SavePart) {
	x := &save{order: order, begun: s.m.w.now}
	s.saves.now = x
	w := s.m.w
	w.ambush(s, inSave)
	s.step(x, between(w.rng, 10*time.Millisecond, time.Second), func() {
		switch {
		case !s.up || !s.scriptRuns() && s.isBatch():
			s.saveOver(x, nil, "the job has not started yet")
		case s.saves.grade == pb.SaveGrade_SAVE_GRADE_NO:
			s.saveOver(x, nil, s.saves.why)
		case s.m.full:
			s.saveOver(x, nil, "no room for what the job holds in memory")
		default:
			s.dump(x)
		}
	})
}

// step plans the next step of a save, unless that is over by then.
func (s *shim) step(x *save, delay time.Duration, do func()) {
	s.after(delay, func() {
		if s.saves.now == x {
			do()
		}
	})
}

// dump writes what runs, while it stands.
func (s *shim) dump(x *save) {
	w := s.m.w
	s.held = true
	s.settle()
	x.dumping, x.done, x.stood = true, s.done(), w.now
	s.step(x, between(w.rng, 50*time.Millisecond, 4*time.Second), func() {
		x.dumping = false
		switch {
		case x.taken:
			s.saveOver(x, nil, takenBack)
		case w.rng.IntN(8) == 0:
			s.saveOver(x, nil, "a connection to another machine is open")
		default:
			s.pack(x)
		}
	})
}

// pack brings the image into its store, where it is durable, while the job runs on
// unless it is to stand.
func (s *shim) pack(x *save) {
	w := s.m.w
	if x.order.GetThen() != pb.SaveThen_SAVE_THEN_STAND {
		x.ranOn = true
		s.letGo()
	}
	delay := between(w.rng, 100*time.Millisecond, 20*time.Second)
	if w.rng.IntN(20) == 0 {
		delay = between(w.rng, time.Minute, 40*time.Minute) // a disk that hangs
	}
	if w.broken.SavedEarly {
		s.step(x, delay/2, func() {
			i := w.newImage(s, x)
			s.after(delay/2, func() { i.node.store(i.store)[i.digest] = i })
			s.saveOver(x, i, "")
		})
		return
	}
	s.step(x, min(delay, time.Duration(x.order.GetTimeoutS())*time.Second), func() {
		switch {
		case delay > time.Duration(x.order.GetTimeoutS())*time.Second:
			s.saveOver(x, nil, "it was not done in time")
			return
		case s.m.full:
			s.saveOver(x, nil, "not enough space")
			return
		}
		i := w.newImage(s, x)
		i.node.store(i.store)[i.digest] = i
		s.step(x, between(w.rng, 0, 20*time.Millisecond), func() { s.saveOver(x, i, "") })
	})
}

// storeFor is the store that an order names, if the machine reaches it.
func (s *shim) storeFor(order *pb.SavePart) string {
	if order.GetStore() != "" && s.m.reaches {
		return order.GetStore()
	}
	return ""
}

// saveOver notes how a save ended, and begins the one that waits.
func (s *shim) saveOver(x *save, i *image, why string) {
	v, w := &s.saves, s.m.w
	result := &pb.PartSaved{Part: s.key.id(), Number: x.order.GetNumber(), Error: why, PackMs: uint32((w.now - x.begun).Milliseconds())}
	switch {
	case i != nil:
		w.Saves++
		result.Image, result.Grade = i.message(), pb.SaveGrade_SAVE_GRADE_YES
		result.Stands = x.order.GetThen() == pb.SaveThen_SAVE_THEN_STAND && !x.ranOn && !s.ending
		w.trace(s.m.name, "part %s is saved as image %d at %v, and stands: %t", s.key, i.number, i.done, result.Stands)
	default:
		w.SavesFailed++
		if why != takenBack && why != jobEnds {
			result.Grade = pb.SaveGrade_SAVE_GRADE_NOT_NOW
		}
		w.trace(s.m.name, "part %s is not saved as image %d: %s", s.key, result.Number, why)
	}
	v.last, v.now = result, nil
	if result.Grade != pb.SaveGrade_SAVE_GRADE_UNSPECIFIED && v.grade != pb.SaveGrade_SAVE_GRADE_NO {
		v.grade, v.why = result.Grade, why
		s.m.daemon.shimGraded(s)
	}
	if result.Stands {
		v.stands = x
	} else {
		s.letGo()
	}
	s.m.daemon.shimSaved(s)
	next := v.next
	v.next = nil
	switch {
	case next == nil || s.ending:
	case next.GetAbandon():
		s.takeBack(next)
	default:
		s.standNoMore()
		s.beginSave(next)
	}
}

const jobEnds = "the job ends"

// stopSaving ends a save that is under way because the job ends, or its lease.
func (s *shim) stopSaving(why string) {
	if x := s.saves.now; x != nil {
		s.saves.next = nil
		s.saveOver(x, nil, why)
	}
}

// firstGrade says whether the part can be saved, before that was tried.
func (s *shim) firstGrade() {
	v := &s.saves
	v.grade = pb.SaveGrade_SAVE_GRADE_LIKELY
	switch mode := s.order.GetSpec().GetCheckpoint().GetMode(); {
	case mode == "none" || mode == "app":
		v.grade, v.why = pb.SaveGrade_SAVE_GRADE_NO, "it was submitted with --checkpoint="+mode
	case !s.m.criu:
		v.grade, v.why = pb.SaveGrade_SAVE_GRADE_NO, "the node has no CRIU"
	}
}

// suspend takes in an order to stand still or to go on. The one with the highest
// number counts.
func (s *shim) suspend(order *pb.SuspendPart) {
	if order.GetNumber() <= s.suspendNumber {
		return
	}
	s.suspendNumber, s.lease.Suspended = order.GetNumber(), order.GetSuspended()
	if s.awaits() {
		s.goOn()
	}
	s.look()
	s.m.daemon.shimSuspended(s)
}

// stands says whether the part stands by an order to do so.
func (s *shim) stands() bool {
	return s.ready && s.alive && !s.ending && s.lease.Suspended && !s.lease.Runs
}

// mayRun says whether its lease lets it run, if only to end.
func (s *shim) mayRun() bool { return s.lease.MayRun(s.m.boottime()) }

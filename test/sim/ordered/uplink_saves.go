package ordered

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"google.golang.org/protobuf/proto"
)

// call has an order reach the supervisor of a part, after those before it.
func (d *daemon) call(p *part, do func(s *shim)) {
	p.calledBy = max(p.calledBy, d.w.now+between(d.w.rng, 0, 5*time.Millisecond))
	d.deliver(p, do)
}

func (d *daemon) deliver(p *part, do func(s *shim)) {
	d.after(p.calledBy-d.w.now, func() {
		switch {
		case p.life.Over():
		case p.shim == nil: // it is being launched
			p.calledBy = max(p.calledBy, d.w.now+50*time.Millisecond)
			d.deliver(p, do)
		case p.shim.alive:
			do(p.shim)
		}
	})
}

// savePart has a part saved, or answers how that ended.
func (d *daemon) savePart(order *pb.SavePart) {
	p := d.parts[keyOf(order.GetPart())]
	switch {
	case p == nil:
		d.sendSaved(notSaved(order, "no part of the job is on this node"))
	case p.life.Over() && p.saved.GetNumber() == order.GetNumber():
		d.sendSaved(p.saved)
	case p.life.Over():
		d.sendSaved(notSaved(order, "the part is over"))
	default:
		d.call(p, func(s *shim) { s.takeSave(order) })
	}
}

func notSaved(order *pb.SavePart, why string) *pb.PartSaved {
	return &pb.PartSaved{Part: order.GetPart(), Number: order.GetNumber(), Error: why, Grade: pb.SaveGrade_SAVE_GRADE_NOT_NOW}
}

func (d *daemon) sendSaved(saved *pb.PartSaved) {
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_PartSaved{PartSaved: proto.CloneOf(saved)}})
}

// shimSaved: a supervisor says how its newest save ended. It does whenever that
// changes, to each new daemon, and when the order is repeated.
func (d *daemon) shimSaved(s *shim) {
	saved := proto.CloneOf(s.saves.last)
	if saved == nil {
		return
	}
	d.told(s, func(p *part) { d.partSaved(p, saved) })
}

// told is when something that a supervisor says is heard, after what it said
// before.
func (d *daemon) told(s *shim, hear func(p *part)) {
	s.saidBy = max(s.saidBy, d.w.now+between(d.w.rng, 0, 5*time.Millisecond))
	d.after(s.saidBy-d.w.now, func() {
		if p := d.parts[s.key]; p != nil && p.shim == s && !p.life.Over() {
			hear(p)
		}
	})
}

func (d *daemon) partSaved(p *part, saved *pb.PartSaved) {
	if !proto.Equal(saved, p.savedKnown) {
		p.saved = saved
	}
	d.sendSaved(saved)
	d.after(between(d.w.rng, 0, time.Second), d.sendHeld)
}

// lastSaved notes how the last save of a part ended that is over. After that
// nothing stands.
func (d *daemon) lastSaved(p *part) {
	if p.saved.GetStands() {
		p.saved = proto.CloneOf(p.saved)
		p.saved.Stands = false
	}
	if p.shim == nil || p.shim.saves.last.GetNumber() <= max(p.saved.GetNumber(), p.savedKnown.GetNumber()) {
		return
	}
	saved := proto.CloneOf(p.shim.saves.last)
	saved.Stands = false
	d.partSaved(p, saved)
}

func (d *daemon) savedAcknowledged(known *pb.SavedAcknowledged) {
	p := d.parts[keyOf(known.GetPart())]
	if p != nil && p.saved != nil && p.saved.GetNumber() == known.GetNumber() {
		p.savedKnown, p.saved = p.saved, nil
	}
}

// shimGraded: a supervisor says whether its part can be saved.
func (d *daemon) shimGraded(s *shim) {
	grade := &pb.PartGrade{Part: s.key.id(), Grade: s.saves.grade, Reason: s.saves.why}
	d.told(s, func(p *part) {
		p.grade = grade
		d.sendGrade(p)
	})
}

func (d *daemon) sendGrade(p *part) {
	if p.grade != nil {
		d.send(&pb.NodeMessage{What: &pb.NodeMessage_PartGrade{PartGrade: p.grade}})
	}
}

// suspendPart passes on that a part shall stand still, or go on.
func (d *daemon) suspendPart(order *pb.SuspendPart) {
	if p := d.parts[keyOf(order.GetPart())]; p != nil && !p.life.Over() {
		d.call(p, func(s *shim) { s.suspend(order) })
	}
}

// shimSuspended: what a supervisor says of such orders has changed.
func (d *daemon) shimSuspended(s *shim) {
	number, stands := s.suspendNumber, s.stands()
	d.told(s, func(p *part) {
		if number == 0 || p.suspendNumber == number && p.stands == stands {
			return
		}
		p.suspendNumber, p.stands = number, stands
		d.send(&pb.NodeMessage{What: &pb.NodeMessage_PartSuspended{PartSuspended: &pb.PartSuspended{Part: p.key.id(), Number: number, Stands: stands}}})
	})
}

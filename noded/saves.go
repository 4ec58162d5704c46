package noded

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// savePart has a part saved, or answers how that ended, or that it is not here.
func (a *agent) savePart(order *pb.SavePart) {
	a.mu.Lock()
	p, ok := a.parts[keyOf(order.GetPart())]
	over := ok && p.life.Over()
	switch {
	case !ok:
		a.sendLocked(savedMessage(notSaved(order, "no part of the job is on this node")))
	case over && p.saved.GetNumber() == order.Number:
		a.sendLocked(savedMessage(p.saved))
	case over:
		a.sendLocked(savedMessage(notSaved(order, errOver.Error())))
	}
	a.mu.Unlock()
	if !ok || over {
		return
	}
	p.put(call{name: "save", until: true, do: func(ctx context.Context, client pb.ShimClient) error {
		_, err := client.Save(ctx, order)
		return err
	}, then: func(err error) {
		if err != nil {
			a.partSaved(p, notSaved(order, userMessage(err)))
		}
	}})
	select {
	case <-p.over: // it may have ended after we looked, with nobody left to deliver
		p.refuseCalls()
	default:
	}
}

func notSaved(order *pb.SavePart, why string) *pb.PartSaved {
	return &pb.PartSaved{Part: order.Part, Number: order.Number, Error: words(why), Grade: pb.SaveGrade_SAVE_GRADE_NOT_NOW}
}

func savedMessage(saved *pb.PartSaved) *pb.NodeMessage {
	return &pb.NodeMessage{What: &pb.NodeMessage_PartSaved{PartSaved: saved}}
}

// partSaved is told by a supervisor: once when a save has ended, again to each
// new watcher and when the order is repeated.
func (a *agent) partSaved(p *part, saved *pb.PartSaved) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.partSavedLocked(p, saved)
}

func (a *agent) partSavedLocked(p *part, saved *pb.PartSaved) {
	// What names another part would be acknowledged as that one.
	saved = proto.CloneOf(saved)
	saved.Part, saved.Error = p.key.message(), words(saved.Error)
	if saved.Image != nil {
		saved.Image.Part = p.key.message()
	}
	if !proto.Equal(saved, p.savedKnown) {
		p.saved = saved
	}
	a.sendLocked(savedMessage(saved))
	a.lookAtImages()
}

// savedAcknowledged: a controller has heard how a save ended.
func (a *agent) savedAcknowledged(m *pb.SavedAcknowledged) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.parts[keyOf(m.GetPart())]
	if ok && p.saved != nil && p.saved.Number == m.Number {
		p.savedKnown, p.saved = p.saved, nil
	}
}

// partGraded: whether a part can be saved has become known, or another.
func (a *agent) partGraded(p *part, grade *pb.PartGrade) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.grade = &pb.PartGrade{Part: p.key.message(), Grade: grade.GetGrade(), Reason: words(grade.GetReason())}
	a.sendLocked(gradeMessage(p.grade))
}

func gradeMessage(grade *pb.PartGrade) *pb.NodeMessage {
	return &pb.NodeMessage{What: &pb.NodeMessage_PartGrade{PartGrade: grade}}
}

// lastSavedLocked notes how the last save of a part ended that is over, if its
// supervisor died before it was heard of. The image may be the one from which
// the job goes on.
func (a *agent) lastSavedLocked(p *part) {
	if p.supervisor == nil {
		return
	}
	saved := p.supervisor.Saved()
	if p.saved != nil && p.saved.Stands {
		p.saved.Stands = false
	}
	if saved == nil || saved.Number <= max(p.saved.GetNumber(), p.savedKnown.GetNumber()) {
		return
	}
	a.partSavedLocked(p, saved)
}

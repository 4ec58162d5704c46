package shim

import (
	"context"
	"errors"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// firstGrade says whether the part can be saved, as far as can be told before
// it was tried.
func (p *part) firstGrade() *pb.PartGrade {
	grade := &pb.PartGrade{Part: p.order.Part, Grade: pb.SaveGrade_SAVE_GRADE_NO}
	c := p.settings.Checkpoint
	switch mode := p.order.Spec.GetCheckpoint().GetMode(); {
	case mode == "none":
		grade.Reason = "it was submitted with --checkpoint=none"
	case mode == "app":
		grade.Reason = "it saves itself (--checkpoint=app): the system does not"
	case c.Engine == nil:
		grade.Reason = clip(c.WhyNot)
	case p.gpus != nil:
		grade.Grade, grade.Reason = pb.SaveGrade_SAVE_GRADE_NOT_NOW, askingDriver
	default:
		grade.Grade = pb.SaveGrade_SAVE_GRADE_LIKELY
	}
	return grade
}

// gradeNow is the grade with what is open at this moment. The caller holds p.mu.
func (p *part) gradeNow() *pb.PartGrade {
	switch grade := p.saves.grade; grade.GetGrade() {
	case pb.SaveGrade_SAVE_GRADE_LIKELY, pb.SaveGrade_SAVE_GRADE_YES:
		if why := p.linesInTheWay(); why != nil {
			return &pb.PartGrade{Part: p.order.Part, Grade: pb.SaveGrade_SAVE_GRADE_NOT_NOW, Reason: why.Error()}
		}
		return grade
	default:
		return grade
	}
}

// askingDriver is told of a job with GPUs until their driver has answered.
const askingDriver = "the driver of its GPUs is being asked whether their memory can be saved: look again in a moment"

// gradeGPUs finds out whether the memory of the part's GPUs can be saved, and
// grades it by that.
func (p *part) gradeGPUs() {
	ctx, cancel := context.WithTimeout(p.startContext, driverPatience)
	defer cancel()
	err := p.gpus.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.saves.grade.GetReason() != askingDriver && (err == nil || !lasts(err)) {
		return // something better is known by now
	}
	p.saves.grade = &pb.PartGrade{Part: p.order.Part, Grade: pb.SaveGrade_SAVE_GRADE_LIKELY}
	if err != nil {
		p.log.Info("what the job has on its GPUs cannot be saved", "error", err)
		p.saves.grade.Grade, p.saves.grade.Reason = pb.SaveGrade_SAVE_GRADE_NOT_NOW, clip("what it has on its GPUs cannot be saved: "+err.Error())
	}
	if lasts(err) {
		p.saves.grade.Grade = pb.SaveGrade_SAVE_GRADE_NO
	}
	p.notify()
}

// gradeAfter is the grade once a save has ended. The caller holds p.mu.
func (p *part) gradeAfter(saved *pb.PartSaved) *pb.PartGrade {
	if saved.Grade == pb.SaveGrade_SAVE_GRADE_UNSPECIFIED || p.saves.grade.GetGrade() == pb.SaveGrade_SAVE_GRADE_NO {
		return p.saves.grade
	}
	return &pb.PartGrade{Part: p.order.Part, Grade: saved.Grade, Reason: saved.Error}
}

// gradeOf says what a save that ended so means for the next one.
func gradeOf(failure error) pb.SaveGrade {
	switch {
	case failure == nil:
		return pb.SaveGrade_SAVE_GRADE_YES
	case errors.Is(failure, errTakenBack), errors.Is(failure, errEnding), errors.Is(failure, errSaveLease):
		return pb.SaveGrade_SAVE_GRADE_UNSPECIFIED // it says nothing of the job
	}
	var lines *linesError
	if errors.As(failure, &lines) {
		return pb.SaveGrade_SAVE_GRADE_UNSPECIFIED // nor of it when they are closed
	}
	return pb.SaveGrade_SAVE_GRADE_NOT_NOW
}

package shim

import (
	"context"
	"errors"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// nvidiaPrefix is how the device files begin of devices that have a memory of
// their own, which only their driver can bring into the host's.
const nvidiaPrefix = "/dev/nvidia"

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
	case len(p.order.Allocation) > 1:
		grade.Reason = "its parts talk to each other: use --checkpoint=app, or it is requeued"
	case c.Engine == nil:
		grade.Reason = clip(c.WhyNot)
	case p.hasNvidia() && p.parker == nil:
		grade.Reason = "the driver of this node's GPUs cannot bring a job's GPU memory into the host's: it needs version 570 or newer"
	default:
		grade.Grade = pb.SaveGrade_SAVE_GRADE_LIKELY
	}
	return grade
}

func (p *part) hasNvidia() bool {
	for _, d := range p.settings.DeviceFiles {
		if strings.HasPrefix(d.Path, nvidiaPrefix) {
			return true
		}
	}
	return false
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
	return pb.SaveGrade_SAVE_GRADE_NOT_NOW
}

// parker brings the memory of a job's GPUs into the host's, and back. parked is
// what Unpark needs to know of Park.
type parker interface {
	Park(ctx context.Context, pids []int) (parked any, err error)
	Unpark(ctx context.Context, parked any) error
}

// park has the job let go of its GPUs, if it has any.
func (p *part) park(ctx context.Context, s *save) error {
	if p.parker == nil {
		return nil
	}
	pids, err := p.group.Procs()
	if err != nil {
		return err
	}
	s.parked, err = p.parker.Park(ctx, pids)
	return err
}

// unpark undoes park. It may be called again.
func (p *part) unpark(s *save) error {
	if s.parked == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.settings.Checkpoint.timeout())
	defer cancel()
	err := p.parker.Unpark(ctx, s.parked)
	if err == nil {
		s.parked = nil
	}
	return err
}

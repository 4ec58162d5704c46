package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// DropImages forgets images of waiting jobs that are gone for good, according
// to the node or store that should have them. The job resumes from what is
// left. If nothing is left, it starts over if it may be requeued, and is over
// otherwise: nobody can ever resume it.
type DropImages struct {
	Drops []ImageDrop `cbor:"1,keyasint"`
}

// ImageDrop names the lost images of one job.
type ImageDrop struct {
	Job     uint32   `cbor:"1,keyasint"`
	Epoch   uint32   `cbor:"2,keyasint"` // of its last run
	Numbers []uint32 `cbor:"3,keyasint"` // of the images that are gone
	Reason  string   `cbor:"4,keyasint,omitempty"`
}

func (DropImages) kind() Kind { return KindDropImages }
func (c DropImages) apply(s *State, result *Result) {
	if len(c.Drops) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d jobs in one entry are too many: at most %d", len(c.Drops), bounds.MaxTargets)
		return
	}
	for i := range c.Drops {
		s.dropImages(&c.Drops[i])
	}
}

func (s *State) dropImages(drop *ImageDrop) {
	job, known := s.Job(drop.Job)
	if !known || job.Phase != Waiting || job.Epoch != drop.Epoch {
		return
	}
	next, saved := job.withSaved()
	saved.Images = slices.DeleteFunc(saved.Images, func(image Image) bool { return slices.Contains(drop.Numbers, image.Number) })
	if len(saved.Images) == len(job.Images()) {
		return
	}
	newest := job.Images()[0]
	first := slices.IndexFunc(job.Images(), func(image Image) bool { return slices.Contains(drop.Numbers, image.Number) })
	gone := fmt.Sprintf("image %d is gone: %s", job.Images()[first].Number, bounds.Clip(drop.Reason, bounds.MaxTextBytes))
	// The work before the image that a run ended with was done already.
	if len(saved.Images) > 0 && (job.mayRepeat() || saved.Images[0].Number == newest.Number) {
		why := joinSentences(job.Detail, gone)
		if left := saved.Images[0]; left.Number != newest.Number {
			saved.undo(newest.RanMS-left.RanMS, fmt.Sprintf("resumes from image %d, because %s", left.Number, gone))
			why = joinSentences(job.Detail, saved.Undone)
		}
		next.Detail = bounds.Clip(why, bounds.MaxTextBytes)
		next.holdHopeless(next.Detail)
		s.putJob(next)
		return
	}
	if !job.Spec.Requeue {
		next.Saved = job.Saved.over()
		next.Phase = Finished
		next.End = &End{
			State: pb.JobState_JOB_STATE_NODE_FAIL, Reason: ReasonNodeDown, EndMS: s.timeMS,
			Detail: bounds.Clip(gone+"; not started over, because it was submitted with --no-requeue", bounds.MaxTextBytes),
		}
		s.putJob(next)
		return
	}
	saved.undo(newest.RanMS, fmt.Sprintf("starts over, though it had been saved, because %s, and there is no other", gone))
	next.Saved, next.Detail = saved.over(), saved.Undone
	s.putJob(next)
}

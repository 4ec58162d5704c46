package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// DropImages forgets images of waiting jobs: some are gone for good, as whoever
// should have them says, and some jobs have waited long enough for a node that can
// go on with theirs. What is left without an image starts over if it may be
// requeued, and is over otherwise.
type DropImages struct {
	Drops []ImageDrop `cbor:"1,keyasint"`
}

// ImageDrop is about the images of one job.
type ImageDrop struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"` // of its last run
	// Numbers are of the images that are gone; none = all, because the job has
	// waited for ImageWaitMS: only of one that may be requeued.
	Numbers []uint32 `cbor:"3,keyasint,omitempty"`
	Reason  string   `cbor:"4,keyasint,omitempty"`
}

func (DropImages) kind() Kind   { return KindDropImages }
func (DropImages) level() Level { return LevelFrozen }

func (c DropImages) apply(s *State, result *Result) {
	if len(c.Drops) > MaxTargets {
		result.Refused = refuse(Exhausted, "%d jobs in one entry are too many: at most %d", len(c.Drops), MaxTargets)
		return
	}
	for i := range c.Drops {
		s.dropImages(&c.Drops[i])
	}
}

func (s *State) dropImages(drop *ImageDrop) {
	job, known := s.Job(drop.Job)
	if !known || job.Phase != Waiting || job.Epoch != drop.Epoch || len(job.Images()) == 0 {
		return
	}
	reason := clip(drop.Reason, MaxTextBytes)
	if len(drop.Numbers) == 0 {
		if job.Spec.Requeue && s.timeMS >= job.Saved.WaitsMS+ImageWaitMS {
			s.putJob(job.startingOver(reason))
		}
		return
	}
	next, saved := job.withSaved()
	saved.Images = slices.DeleteFunc(saved.Images, func(image Image) bool { return slices.Contains(drop.Numbers, image.Number) })
	// What is before an image with which a run ended was done already.
	if len(saved.Images) > 0 && (job.mayRepeat() || saved.Images[0].Number == job.Saved.Images[0].Number) {
		if len(saved.Images) < len(job.Saved.Images) {
			next.Detail = clip(joinSentences(job.Detail, fmt.Sprintf("image %d is gone: %s", drop.Numbers[0], reason)), MaxTextBytes)
			s.putJob(next)
		}
		return
	}
	if job.Spec.Requeue {
		s.putJob(job.startingOver(reason))
		return
	}
	next.Saved = job.Saved.over()
	next.Phase = Finished
	next.End = &End{
		State: pb.JobState_JOB_STATE_NODE_FAIL, Reason: ReasonNodeDown, EndMS: s.timeMS,
		Detail: clip(reason+"; not started over, because it was submitted with --no-requeue", MaxTextBytes),
	}
	s.putJob(next)
}

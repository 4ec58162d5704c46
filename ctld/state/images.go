package state

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file says which images are needed, and by whom.

// indexImages tells the index of jobs with images, or parts of one, of a record.
func indexImages(job *Job, change func(id uint32)) {
	if len(job.Images()) > 0 || job.made() != nil {
		change(job.ID)
	}
}

// made is the image of which some parts are there, and others not yet.
func (j *Job) made() *Image {
	if saving := j.Saving(); saving != nil {
		return saving.Made
	}
	return nil
}

// WithImages are the jobs of which images are kept, or parts of one, ascending by
// number.
func (t *tables) WithImages(yield func(*Job) bool) {
	t.imaged.Scan(func(id uint32, _ struct{}) bool {
		job, _ := t.live.Get(id)
		return yield(job)
	})
}

// NeededImages are those that some job still needs, by the node that made them,
// ascending by job and number. A node deletes all others that it made.
func (t *tables) NeededImages() map[string][]*pb.Image {
	needed := make(map[string][]*pb.Image)
	t.WithImages(func(job *Job) bool {
		need := func(image *Image) {
			for part := range image.Parts {
				if p := &image.Parts[part]; p.Digest != (Digest{}) {
					needed[p.Node] = append(needed[p.Node], image.Message(job.ID, part))
				}
			}
		}
		for i := range job.Saved.Images {
			need(&job.Saved.Images[i])
		}
		if made := job.made(); made != nil {
			need(made)
		}
		return true
	})
	for _, images := range needed {
		slices.SortFunc(images, func(a, b *pb.Image) int {
			return cmp.Or(cmp.Compare(a.Part.Job, b.Part.Job), cmp.Compare(a.Number, b.Number))
		})
	}
	return needed
}

package state

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file says which images are needed, and by whom.

// indexImages tells the index of jobs with images of a record.
func indexImages(job *Job, change func(id uint32)) {
	if len(job.Images()) > 0 {
		change(job.ID)
	}
}

// WithImages are the jobs of which images are kept, ascending by number.
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
		for i := range job.Saved.Images {
			image := &job.Saved.Images[i]
			needed[image.Node] = append(needed[image.Node], image.Message(job.ID))
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

package state

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file says which images are needed, and by which jobs and nodes.

// indexImages tells the index of jobs with images, whole or in part, of a
// record.
func indexImages(job *Job, change func(id uint32)) {
	if len(job.Images()) > 0 || job.made() != nil {
		change(job.ID)
	}
}

// made is the image that has some of its allocations, and not yet the others.
func (j *Job) made() *Image {
	if saving := j.Saving(); saving != nil {
		return saving.Made
	}
	return nil
}

// WithImages are the jobs that have images, whole or in part, ascending by
// number.
func (t *tables) WithImages(yield func(*Job) bool) {
	t.imaged.Scan(func(id uint32, _ struct{}) bool {
		job, _ := t.live.Get(id)
		return yield(job)
	})
}

// NeededImages are those that some job still needs, by the nodes that made them
// or have copies of them, ascending by job and number. A node deletes all others
// that it made, and all others in its own store.
func (t *tables) NeededImages() map[string][]*pb.Image {
	needed := make(map[string][]*pb.Image)
	t.WithImages(func(job *Job) bool {
		need := func(image *Image) {
			for alloc := range image.Allocs {
				p := &image.Allocs[alloc]
				if p.Digest == (Digest{}) {
					continue
				}
				for _, node := range append([]string{p.Node}, p.Copies...) {
					needed[node] = append(needed[node], image.Message(job.ID, alloc))
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
			return cmp.Or(cmp.Compare(a.Alloc.Job, b.Alloc.Job), cmp.Compare(a.Number, b.Number))
		})
	}
	return needed
}

// Restoring is the part of an image that an allocation of a run resumes from
// while it is not up yet; nil when the allocation is up, or over, or starts
// with its script. A node may fetch that image while it restores it, and no
// longer.
func (t *tables) Restoring(ref AllocRef) *pb.Image {
	job, alloc := t.LiveAlloc(ref)
	if alloc == nil || alloc.Ready || job.Run.Restore == nil {
		return nil
	}
	return job.Run.Restore.Message(job.ID, slices.Index(job.Run.nodes(), ref.Node))
}

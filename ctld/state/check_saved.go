package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
)

// checkSaved says what is impossible in a job's images and saves.
func checkSaved(job *Job) error {
	wrong := func(format string, arguments ...any) error {
		return fmt.Errorf("job %d: "+format, append([]any{job.ID}, arguments...)...)
	}
	if job.Run != nil && job.Run.Fills && job.NeverSaved() {
		return wrong("fills a hole, and is never saved")
	}
	if job.Run != nil && job.Run.Saving != nil {
		saving := job.Run.Saving
		switch {
		case job.Phase != Running:
			return wrong("is being saved in phase %d", job.Phase)
		case saving.Made != nil && (!job.IsGang() || saving.Made.Number != saving.Number || !slices.Equal(saving.Made.Nodes(), job.Run.nodes()) || saving.Made.whole()):
			return wrong("image %d is being made, and has %+v", saving.Number, saving.Made.Allocs)
		case job.Saved == nil || saving.Number == 0 || saving.Number > job.Saved.Number || job.Saved.image(saving.Number) != nil:
			return wrong("image %d is being made, which cannot be", saving.Number)
		case saving.Purpose < SaveInterval || saving.Purpose > SaveReplace || (saving.Purpose == SavePreemption) != (saving.Order != nil):
			return wrong("is being saved for %s", saving.Purpose)
		case saving.Purpose == SavePack && !job.parkedWhole():
			return wrong("is packed, and is not parked")
		}
	}
	if job.Run != nil && job.Run.Restore != nil && (job.Run.Restore.Epoch >= job.Epoch || len(job.Run.Restore.Allocs) != len(job.Run.Allocs)) {
		return wrong("run %d resumes from one of run %d", job.Epoch, job.Run.Restore.Epoch)
	}
	if job.Saved == nil {
		return nil
	}
	switch saved := job.Saved; {
	case job.Array != 0 && !job.HasTask:
		return wrong("several tasks have been saved as one")
	case saved.Number == 0:
		return wrong("what was saved of it was never asked for")
	case job.Phase == Finished && (len(saved.Images) > 0 || len(saved.Tries) > 0):
		return wrong("is over and keeps %d images", len(saved.Images))
	case len(saved.Images) > KeptImages || len(saved.Tries) > KeptImages*maxRestoreTries:
		return wrong("has %d images and %d tries", len(saved.Images), len(saved.Tries))
	}
	if job.Run != nil && job.Run.Away != nil {
		if image := job.Saved.image(job.Run.Away.Number); job.Phase != Running || image == nil || image.Epoch != job.Epoch || image.Elsewhere() || job.Run.Move != nil || job.Run.Saving != nil {
			return wrong("leaves its node with image %d, which cannot be", job.Run.Away.Number)
		}
	}
	if job.Suspended() && job.Run.Suspension.Packed != 0 {
		if image := job.Saved.image(job.Run.Suspension.Packed); image == nil || image.Epoch != job.Epoch || image.Number != job.Saved.Images[0].Number || job.Run.Suspension.Reclaim == 0 {
			return wrong("is packed as image %d, and has %v", job.Run.Suspension.Packed, numbersOf(job.Images()))
		}
	}
	if job.Phase == Running && !job.Configuring() && len(job.Saved.undone(job)) > 0 {
		return wrong("keeps images %v, which its run does not come from", numbersOf(job.Saved.undone(job)))
	}
	if job.Phase == Waiting && job.hopeless() && job.Held == sched.NotHeld {
		return wrong("is not held, and none of its images is tried again")
	}
	for i := range job.Saved.Images {
		image := &job.Saved.Images[i]
		if older := i + 1; image.Parent >= image.Number || older < len(job.Saved.Images) && image.Parent < job.Saved.Images[older].Number {
			return wrong("image %d comes from %d, and images %v are kept", image.Number, image.Parent, numbersOf(job.Saved.Images))
		}
		if i > 0 && job.Saved.Images[i-1].Number <= image.Number || image.Number == 0 || image.Number > job.Saved.Number {
			return wrong("image %d is out of order", image.Number)
		}
		if err := image.checkPlaces(); err != nil {
			return wrong("image %d: %w", image.Number, err)
		}
		if image.Epoch == 0 || image.Epoch > job.Epoch || !image.whole() || image.RanMS < 0 || len(image.KnownAs()) != len(image.Allocs) {
			return wrong("image %d is none: %+v", image.Number, *image)
		}
	}
	return nil
}

// whole reports whether the image has data of each allocation.
func (i *Image) whole() bool {
	return len(i.Allocs) > 0 && !slices.ContainsFunc(i.Allocs, func(p ImageAlloc) bool { return p.Node == "" || p.Digest == (Digest{}) })
}

// checkImaged compares the index of jobs with images with the records.
func (t *tables) checkImaged() error {
	var want, staged []uint32
	for job := range t.LiveJobs() {
		indexImages(job, func(id uint32) { want = append(want, id) })
		indexStaged(job, func(id uint32) { staged = append(staged, id) })
	}
	if have := t.staged.Keys(); !slices.Equal(have, staged) {
		return fmt.Errorf("jobs %v have files to stage, %v are known for it", staged, have)
	}
	if have := t.imaged.Keys(); !slices.Equal(have, want) {
		return fmt.Errorf("jobs %v have images, %v are known for it", want, have)
	}
	return nil
}

func numbersOf(images []Image) []uint32 {
	numbers := make([]uint32, len(images))
	for i := range images {
		numbers[i] = images[i].Number
	}
	return numbers
}

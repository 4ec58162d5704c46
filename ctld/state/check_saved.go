package state

import (
	"fmt"
	"slices"
)

// checkSaved says what of a job's images and saves cannot be.
func checkSaved(job *Job) error {
	wrong := func(format string, arguments ...any) error {
		return fmt.Errorf("job %d: "+format, append([]any{job.ID}, arguments...)...)
	}
	if job.Run != nil && job.Run.Saving != nil {
		saving := job.Run.Saving
		switch {
		case job.Phase != Running:
			return wrong("is being saved in phase %d", job.Phase)
		case saving.Made != nil && (!job.IsGang() || saving.Made.Number != saving.Number || !slices.Equal(saving.Made.Nodes(), job.Run.nodes()) || saving.Made.whole()):
			return wrong("image %d is being made, and has %+v", saving.Number, saving.Made.Parts)
		case job.Saved == nil || saving.Number == 0 || saving.Number > job.Saved.Number || job.Saved.image(saving.Number) != nil:
			return wrong("image %d is being made, which cannot be", saving.Number)
		case saving.Purpose < SaveInterval || saving.Purpose > SavePreemption || (saving.Purpose == SavePreemption) != (saving.Order != nil):
			return wrong("is being saved for %s", saving.Purpose)
		}
	}
	if job.Run != nil && job.Run.Restore != nil && (job.Run.Restore.Epoch >= job.Epoch || len(job.Run.Restore.Parts) != len(job.Run.Parts)) {
		return wrong("run %d goes on from one of run %d", job.Epoch, job.Run.Restore.Epoch)
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
	case len(saved.Images) > KeptImages || len(saved.Tries) >= maxRestoreTries:
		return wrong("has %d images and %d tries", len(saved.Images), len(saved.Tries))
	}
	for i := range job.Saved.Images {
		image := &job.Saved.Images[i]
		if i > 0 && job.Saved.Images[i-1].Number <= image.Number || image.Number == 0 || image.Number > job.Saved.Number {
			return wrong("image %d is out of order", image.Number)
		}
		if image.Epoch == 0 || image.Epoch > job.Epoch || !image.whole() || image.RanMS < 0 || len(image.KnownAs()) != len(image.Parts) {
			return wrong("image %d is none: %+v", image.Number, *image)
		}
	}
	return nil
}

// whole says whether there is something of each part.
func (i *Image) whole() bool {
	return len(i.Parts) > 0 && !slices.ContainsFunc(i.Parts, func(p ImagePart) bool { return p.Node == "" || p.Digest == (Digest{}) })
}

// checkFrozen says what there is that the level in force does not know.
func (t *tables) checkFrozen(job *Job) error {
	if t.level >= LevelFrozen {
		return nil
	}
	if job.Saved != nil || job.Run != nil && (job.Run.Saving != nil || job.Run.Restore != nil || job.Run.Abandoned != 0) ||
		job.End != nil && (job.End.Stands || job.End.StartOver || job.End.Unrestored) {
		return fmt.Errorf("job %d was saved below the level that knows of it", job.ID)
	}
	return nil
}

// checkImaged compares the index of jobs with images with the records.
func (t *tables) checkImaged() error {
	var want []uint32
	for job := range t.LiveJobs() {
		indexImages(job, func(id uint32) { want = append(want, id) })
	}
	if have := t.imaged.Keys(); !slices.Equal(have, want) {
		return fmt.Errorf("jobs %v have images, %v are known for it", want, have)
	}
	return nil
}

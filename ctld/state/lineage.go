package state

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file has the lineage of a job's images: which of them are one line, from
// which of these the job continues, and what is never used again.
//
// Each image has a parent: the image before it of the same run, or the one from
// which the run resumed. Once a run resumes from an image, those that are not
// its ancestors belong to work that is undone, and are forgotten in the same
// command: whichever node comes back with one, nobody asks for it. So the
// images that are kept are always one line.
//
// The newest is used. An older one takes its place only if the newer cannot be
// had: its node has not responded for the policy's ImageWait, counted from when
// the controllers noticed, or it could not be restored maxRestoreTries times.
// As long as no run resumed from the older one, a node that comes back makes
// the newer one the next again.

// parentOf is the number of the image from which the present run of a job came
// when it was saved as number; 0 = it began with its script.
func (s *Saved) parentOf(job *Job, number uint32) uint32 {
	for i := range s.Images { // newest first
		if image := &s.Images[i]; image.Epoch == job.Epoch && image.Number < number {
			return image.Number
		}
	}
	if job.Run.Restore != nil {
		return job.Run.Restore.Number
	}
	return 0
}

// add keeps an image of the present run, which may come after a newer one, and
// the newest of the other runs. A run that was saved has resumed from where it
// began.
func (s *Saved) add(job *Job, image Image) {
	s.wentOn(job)
	image.Parent = s.parentOf(job, image.Number)
	for i := range s.Images {
		if later := &s.Images[i]; later.Epoch == job.Epoch && later.Number > image.Number && later.Parent < image.Number {
			later.Parent = image.Number
		}
	}
	s.Images = append(s.Images, image)
	slices.SortFunc(s.Images, func(a, b Image) int { return cmp.Compare(b.Number, a.Number) })
	s.Images = s.Images[:min(len(s.Images), KeptImages)]
}

// wentOn forgets the images that are no ancestors of the present run, now that
// it has resumed: other runs made them after the image that it resumed from.
func (s *Saved) wentOn(job *Job) {
	from := job.Run.Restore
	dead := s.undone(job)
	if len(dead) == 0 {
		return
	}
	newest, ranMS := &dead[0], int64(0)
	text := "the script's start"
	if from != nil {
		ranMS, text = from.RanMS, fmt.Sprintf("image %d", from.Number)
	}
	why := fmt.Sprintf("node %s, which has it, was away", newest.Allocs[0].Node)
	if len(newest.Allocs) > 1 {
		why = "a node that has a part of it was away"
	}
	if s.exhausted(newest.Number) {
		why = fmt.Sprintf("%d restores of it failed", maxRestoreTries)
	}
	s.undo(newest.RanMS-ranMS, fmt.Sprintf("resumed from %s and not from image %d, because %s", text, newest.Number, why))
	s.Images = slices.DeleteFunc(s.Images, func(image Image) bool { return image.dead(job) })
}

// undone are the kept images that are no ancestors of the present run of a job,
// newest first.
func (s *Saved) undone(job *Job) []Image {
	var dead []Image
	for i := range s.Images {
		if s.Images[i].dead(job) {
			dead = append(dead, s.Images[i])
		}
	}
	return dead
}

// dead reports whether an image that is kept belongs neither to the present run
// of its job nor to those from which it came.
func (i *Image) dead(job *Job) bool {
	from := uint32(0)
	if job.Run.Restore != nil {
		from = job.Run.Restore.Number
	}
	return i.Epoch != job.Epoch && i.Number > from
}

// undo counts work that is lost or must be repeated because images cannot be
// used.
func (s *Saved) undo(ms int64, why string) {
	ms = max(ms, 0)
	s.UndoneMS += min(ms, math.MaxInt64-s.UndoneMS)
	s.Undone = bounds.Clip(fmt.Sprintf("%s: %s of work were undone", why, secondsText(ms)), bounds.MaxTextBytes)
}

func secondsText(ms int64) string { return fmt.Sprintf("%d s", (ms+500)/1000) }

// NextImage is the image from which a waiting job resumes at a time, by the
// clock of the log; nil when it starts with its script. It is the newest that
// can be had. If none can, it is the newest that is worth waiting for. A job
// that may not repeat work has only one.
func (t *tables) NextImage(job *Job, nowMS int64) *Image {
	images := job.Images()
	if job.Phase != Waiting || len(images) == 0 {
		return nil
	}
	waited := &images[0]
	if !job.mayRepeat() {
		return waited
	}
	some := false
	for i := range images {
		image := &images[i]
		switch {
		case job.Saved.exhausted(image.Number):
		case t.present(image, nowMS):
			return image
		case !some:
			waited, some = image, true
		}
	}
	return waited
}

// present reports whether an image is to be waited for at a time: each
// allocation's part is in a store that several nodes reach, or on some node that
// has not been away for long.
func (t *tables) present(image *Image, nowMS int64) bool {
	for i := range image.Allocs {
		alloc := &image.Allocs[i]
		if alloc.Store == "" && !slices.ContainsFunc(alloc.Holders(), func(name string) bool {
			node, known := t.nodes.Get(name)
			return known && node.Inventory != nil && (!node.NotResponding || nowMS < node.SilentMS+t.imageWaitMS())
		}) {
			return false
		}
	}
	return true
}

func (t *tables) imageWaitMS() int64 { return int64(t.policy.ImageWaitS()) * 1000 }

// FallBack is the image from which a waiting job resumes once its next one is
// no longer waited for, and from when on, by the clock of the log; nil = there
// is none, or nothing says that its node is away.
func (t *tables) FallBack(job *Job, image *Image) (next *Image, atMS int64) {
	for i := range image.Allocs {
		if at := t.awayMS(&image.Allocs[i]); at != 0 && (atMS == 0 || at < atMS) {
			atMS = at
		}
	}
	if atMS == 0 {
		return nil, 0
	}
	if next = t.NextImage(job, atMS); next == nil || next.Number == image.Number {
		return nil, 0
	}
	return next, atMS
}

// awayMS is when a part of an image is no longer waited for, because no node that
// has it responds; 0 = one does, or it is in a store that several nodes reach.
func (t *tables) awayMS(alloc *ImageAlloc) (atMS int64) {
	if alloc.Store != "" {
		return 0
	}
	for _, name := range alloc.Holders() {
		node, known := t.nodes.Get(name)
		if known && !node.NotResponding {
			return 0
		}
		if known {
			atMS = max(atMS, node.SilentMS+t.imageWaitMS())
		}
	}
	return atMS
}

// exhausted reports whether restores of an image failed so often that it is not
// tried again before a user has looked.
func (s *Saved) exhausted(number uint32) bool { return s.failures(number) >= maxRestoreTries }

func (s *Saved) failures(number uint32) (count int) {
	for _, try := range s.Tries {
		if try.Number == number {
			count++
		}
	}
	return count
}

// mayBeAway notes that an image could not be had, and reports whether that has
// lasted for less than it is waited for.
func (s *Saved) mayBeAway(number uint32, nowMS, waitMS int64) bool {
	if s.AwayNumber != number {
		s.AwayNumber, s.AwayMS = number, nowMS
	}
	return nowMS < s.AwayMS+waitMS
}

// forgetTries forgets which restores failed.
func (s *Saved) forgetTries() { s.Tries, s.AwayNumber, s.AwayMS = nil, 0, 0 }

// failedOn reports whether a restore of an image has failed on a node.
func (s *Saved) failedOn(number uint32, node string) bool {
	return slices.Contains(s.Tries, RestoreTry{Number: number, Node: node})
}

// hopeless reports whether none of the images of a waiting job is tried again:
// the job is held, because only its user may decide to start over.
func (j *Job) hopeless() bool {
	images := j.Images()
	if !j.mayRepeat() {
		images = images[:min(len(images), 1)]
	}
	return len(images) > 0 && !slices.ContainsFunc(images, func(image Image) bool { return !j.Saved.exhausted(image.Number) })
}

// holdHopeless holds a copy of a waiting job whose images cannot be restored.
func (j *Job) holdHopeless(why string) {
	if !j.hopeless() {
		return
	}
	if j.Held == sched.NotHeld {
		j.Held = sched.LaunchFailed
	}
	j.Detail = bounds.Clip(joinSentences(why, fmt.Sprintf("restores failed %d times in a row, and nothing of it is lost: gcontrol release %d tries to continue, %s", len(j.Saved.Tries), j.ID, j.StartOverText())), bounds.MaxTextBytes)
}

// goesOn notes, in a copy of a job, that its present run has resumed from where
// it began.
func (j *Job) goesOn() {
	if len(j.Saved.undone(j)) == 0 {
		return
	}
	next, saved := j.withSaved()
	saved.wentOn(j)
	j.Saved = next.Saved
}

// StartOverText says what to type to have a job that has an image start over.
func (j *Job) StartOverText() string {
	if j.Spec.Requeue {
		return fmt.Sprintf("gcontrol requeue %d starts over from its script", j.ID)
	}
	return fmt.Sprintf("gcontrol update JobId=%d Requeue=1 and then gcontrol requeue %d lets it start over from its script", j.ID, j.ID)
}

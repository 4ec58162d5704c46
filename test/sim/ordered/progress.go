package ordered

import (
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// SaveCounts are what happened of saves and suspension. Left are the runs that ended
// with an image, Leaving the jobs that were saved to make room, Moved those that went on
// exactly where they had left, Repeated the runs that began with what was done before,
// Dropped the jobs whose images were given up.
type SaveCounts struct {
	Saves, SavesFailed, Restores, RestoresFailed                int
	Left, Leaving, Moved, Repeated, Dropped, Deleted, Suspended int
	// Of jobs on several nodes: images of all parts, runs that ended with one, and
	// runs that went on from one, on which of their own nodes or where they were sent.
	Gangs, GangsLeft, GangsOn, GangsSent int
}

// Add adds up two.
func (c *SaveCounts) Add(o *SaveCounts) {
	c.Saves, c.SavesFailed = c.Saves+o.Saves, c.SavesFailed+o.SavesFailed
	c.Restores, c.RestoresFailed = c.Restores+o.Restores, c.RestoresFailed+o.RestoresFailed
	c.Left, c.Leaving, c.Moved = c.Left+o.Left, c.Leaving+o.Leaving, c.Moved+o.Moved
	c.Repeated, c.Dropped, c.Deleted = c.Repeated+o.Repeated, c.Dropped+o.Dropped, c.Deleted+o.Deleted
	c.Suspended += o.Suspended
	c.Gangs, c.GangsLeft = c.Gangs+o.Gangs, c.GangsLeft+o.GangsLeft
	c.GangsOn, c.GangsSent = c.GangsOn+o.GangsOn, c.GangsSent+o.GangsSent
}

// work is what has really been done of a job, over all its runs. What a job does is
// a sequence: a run begins where some image or the script's start is, and a job
// that may not repeat itself begins each run exactly where it stood.
type work struct {
	furthest time.Duration
	// anew: it is to start over, because its script had ended or somebody said so.
	anew bool
	// left is the run that stood still with an image to go on elsewhere, and number
	// that of the image. excuse is why it may go on from another all the same.
	left   partKey
	number uint32
	stood  time.Duration // where it did
	excuse string
	// images are those that the log needs for it, by digest, and restores how many
	// of them it knows to have failed.
	images map[string]bool
	tries  int
	seen   map[uint32]bool // numbers of the images of which the log has learned
}

func (t *truth) workOf(job uint32) *work {
	of := t.work[job]
	if of == nil {
		of = &work{seen: map[uint32]bool{}}
		t.work[job] = of
	}
	return of
}

// checkRestore is asked of each part that a node takes: one that goes on from an image
// does so on a node that says it can.
func (t *truth) checkRestore(m *machine, s *shim) {
	want := s.order.GetRestore()
	if want == nil {
		return
	}
	i := t.images[string(want.GetDigest())]
	if i == nil || !m.criu || m.kernel != i.node.kernel {
		t.w.fail("wrong node: part %s is to go on from image %d on %s, which can not", s.key, want.GetNumber(), m.name)
	}
}

// begins checks from where a run begins, when its processes run for the first time.
func (t *truth) begins(s *shim) {
	t.checkSource(s)
	if !s.isBatch() {
		return
	}
	of, from := t.workOf(s.key.job), s.done()
	asked := s.order.GetSpec()
	self := asked.GetCheckpoint().GetMode() == "app"
	repeats := asked.GetRequeue()
	if s.image != nil {
		t.w.Restores++
		t.w.trace(s.m.name, "part %s goes on from image %d at %v of %v", s.key, s.image.number, from, of.furthest)
		repeats = repeats || asked.GetCheckpoint().GetIntervalS() > 0 || asked.GetCheckpoint().GetIntervalAuto()
	}
	switch want := s.order.GetRestore(); {
	case want != nil && s.image == nil:
		t.w.fail("runs unrestored: part %s starts from its script, and was to go on from image %d", s.key, want.GetNumber())
	case from > of.furthest:
		t.w.fail("gap: part %s begins at %v, and its job had come to %v", s.key, from, of.furthest)
	case self:
	case of.anew && from > 0:
		t.w.fail("not started over: part %s goes on at %v, and was to begin anew", s.key, from)
	case of.anew:
		of.furthest = 0
	case from < of.furthest && !repeats:
		t.w.fail("repeated: part %s begins at %v, and its job, which may not be requeued, had come to %v", s.key, from, of.furthest)
	case of.left != (partKey{}) && of.excuse == "" && s.image == nil:
		t.w.fail("lost: part %s starts over, and part %s stood still with image %d at %v", s.key, of.left, of.number, of.stood)
	case of.left != (partKey{}) && of.excuse == "" && from != of.stood:
		t.w.fail("lost: part %s goes on at %v, and part %s stood still with image %d at %v", s.key, from, of.left, of.number, of.stood)
	}
	if of.left != (partKey{}) && from == of.stood {
		t.w.Moved++
	} else if from < of.furthest {
		t.w.Repeated++
	}
	of.anew, of.left, of.number, of.excuse = false, partKey{}, 0, ""
}

// comes notes how far a part has come, when it does not run any more.
func (t *truth) comes(s *shim) {
	if s.isBatch() {
		of := t.workOf(s.key.job)
		of.furthest = max(of.furthest, s.done())
	}
}

// excuse notes why a job may go on from another image than that with which it
// left, or start over.
func (t *truth) excuse(job uint32, why string) { t.workOf(job).excuse = why }

// deleted is told of each image that a node deletes.
func (t *truth) deleted(i *image) {
	t.w.Deleted++
	if of := t.workOf(i.key.job); of.images[i.digest] {
		t.w.fail("image deleted: %s is deleted by node %s, and its job needs it", i, i.node.name)
	}
}

// lost notes that an image is gone or spoiled by a fault.
func (t *truth) lost(i *image) {
	i.lost = true
	t.excuse(i.key.job, i.String()+" was lost")
}

// spoiled says whether a job that waits will never go on from its image.
func (t *truth) spoiled(job *state.Job) bool {
	next := job.NextImage()
	if next == nil {
		return false
	}
	return slices.ContainsFunc(next.Parts, func(part state.ImagePart) bool {
		i := t.images[string(part.Digest[:])]
		return i != nil && i.damaged
	})
}

// follow follows by the log which images are needed, which runs are left, and
// which jobs are to start over. was is the job's phase before the entry.
func (t *truth) follow(result *state.Result, job *state.Job, was state.Phase) {
	of := t.workOf(job.ID)
	before := of.images
	of.images = needed(job)
	t.checkImages(of, job)
	t.tried(of, job)
	if job.Phase == state.Ending && job.End.Stands && was == state.Running {
		t.leaves(job)
	}
	switch result.Kind {
	case state.KindPartsEnded:
		saw := t.results[partKey{job.ID, job.Epoch}]
		if was == state.Running && job.Phase != state.Finished && saw.GetCause() == pb.EndCause_END_CAUSE_EXITED {
			of.anew = true
		}
	case state.KindDropImages:
		t.w.Dropped++
		t.w.trace("log", "images of job %d are dropped: %s", job.ID, job.Detail)
		if strings.Contains(job.Detail, "minutes no node could go on") {
			of.excuse = "it waited"
			return
		}
		if of.excuse == "" {
			t.checkForgotten(before, job)
		}
	}
}

// leaves checks that a run which is over by its image stands still, and notes it.
func (t *truth) leaves(job *state.Job) {
	key := partKey{job.ID, job.Epoch}
	t.w.Left++
	image := job.Images()[0]
	of := t.workOf(job.ID)
	of.left, of.number, of.excuse = key, image.Number, ""
	t.w.trace("log", "job %d leaves %v: %s", job.ID, image.Nodes(), job.End.Detail)
	for k, part := range image.Parts {
		i := t.images[string(part.Digest[:])]
		if i == nil || !i.there() {
			t.w.fail("not durable: job %d leaves with image %d, whose part of node %s is nowhere", job.ID, image.Number, part.Node)
			return
		}
		if k == 0 { // of the batch host
			of.stood = i.done
		}
		if i.lost { // while the others were made
			of.excuse = i.String() + " was lost"
		}
	}
	if len(image.Parts) > 1 {
		t.w.GangsLeft++
	}
	for s := range t.running[job.ID] {
		t.w.fail("runs on: part %s of job %d runs on %s, and leaves with image %d", s.key, job.ID, s.m.name, image.Number)
	}
}

// startOver notes the jobs that somebody has begin anew.
func (w *World) startOver(result *state.Result) {
	if result.Kind != state.KindRequeueJobs || result.Refused != nil || result.Repeated {
		return
	}
	for i := range result.Jobs {
		if result.Jobs[i].Code == state.OK {
			w.truth.workOf(result.Jobs[i].Job).anew = true
		}
	}
}

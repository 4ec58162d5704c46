package ordered

import (
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// SaveCounts are what happened of saves and suspension. Left are the runs that ended
// with an image, Leaving the jobs that were saved to make room, Moved those that went on
// exactly where they had left, Took of these the runs that took the place of another,
// Stayed the moves that came to nothing, Repeated the runs that began with what was done before,
// Dropped the jobs whose images were given up, Older the starts from another image than the
// newest, Undone the images that an older one had taken the place of for good.
type SaveCounts struct {
	Saves, SavesFailed, Restores, RestoresFailed                int
	Left, Leaving, Moved, Repeated, Dropped, Deleted, Suspended int
	Took, Stayed, Older, Undone                                 int
	Copied                                                      int // images, to second nodes
	// Of jobs on several nodes: images of all allocations, runs that ended with one, and
	// runs that went on from one, on their own nodes or on others.
	Gangs, GangsLeft, GangsOn, GangsSent int
}

// Add adds up two.
func (c *SaveCounts) Add(o *SaveCounts) {
	c.Saves, c.SavesFailed = c.Saves+o.Saves, c.SavesFailed+o.SavesFailed
	c.Restores, c.RestoresFailed = c.Restores+o.Restores, c.RestoresFailed+o.RestoresFailed
	c.Left, c.Leaving, c.Moved = c.Left+o.Left, c.Leaving+o.Leaving, c.Moved+o.Moved
	c.Repeated, c.Dropped, c.Deleted = c.Repeated+o.Repeated, c.Dropped+o.Dropped, c.Deleted+o.Deleted
	c.Suspended += o.Suspended
	c.Took, c.Stayed = c.Took+o.Took, c.Stayed+o.Stayed
	c.Older, c.Undone = c.Older+o.Older, c.Undone+o.Undone
	c.Copied += o.Copied
	c.Gangs, c.GangsLeft = c.Gangs+o.Gangs, c.GangsLeft+o.GangsLeft
	c.GangsOn, c.GangsSent = c.GangsOn+o.GangsOn, c.GangsSent+o.GangsSent
}

// work is what has really been done of a job, over all its runs. What a job does is
// a sequence: a run begins where some image or the script's start is, and a job
// that may not repeat itself begins each run exactly where it stood.
type work struct {
	furthest time.Duration
	// startsOver: it starts over next, because its script had ended or somebody said so.
	startsOver bool
	// left is the run that stood still with an image to go on elsewhere, and number
	// that of the image. excuse is why it may go on from another all the same.
	left   registry.Key
	number uint32
	stood  time.Duration // where it did
	excuse string
	// images are those that the log needs for it, by digest, and restores how many
	// of them it knows to have failed.
	images map[string]bool
	tries  int
	copies map[string]bool // of which the log has learned: a node's name and a digest
	stayed uint32          // the image of the last move that came to nothing
	seen   map[uint32]bool // numbers of the images of which the log has learned
	line   []stretch       // what led to what really ran last, oldest first
	record *state.Job      // as of the last entry that changed it
	former uint32          // the run before that entry: one that ends may have had successors
}

func (t *truth) workOf(job uint32) *work {
	of := t.work[job]
	if of == nil {
		of = &work{seen: map[uint32]bool{}}
		t.work[job] = of
	}
	return of
}

// checkRestore is asked of each allocation that a node takes: one that goes on from an image
// does so on a node that says it can.
func (t *truth) checkRestore(s *node.Shim) {
	want := s.Order.GetRestore()
	if want == nil {
		return
	}
	i := t.images[string(want.GetDigest())]
	if n := s.Node; i == nil || !n.CRIU || n.Kernel != i.Node.Kernel || i.Differs(n) {
		t.w.fail("wrong node: allocation %s is to go on from image %d on %s, which can not", s.Key, want.GetNumber(), s.Node.Name)
	}
}

// begins checks from where a run begins, when its processes run for the first time.
func (t *truth) begins(s *node.Shim) {
	t.checkSource(s)
	if !s.IsBatch() {
		return
	}
	of, from := t.workOf(s.Key.Job), s.Done()
	asked := s.Order.GetSpec()
	self := asked.GetCheckpoint().GetMode() == "app"
	repeats := asked.GetRequeue()
	if s.Image != nil {
		t.w.Restores++
		t.w.trace(s.Node.Name, "allocation %s goes on from image %d at %v of %v", s.Key, s.Image.Number, from, of.furthest)
		repeats = repeats || asked.GetCheckpoint().GetIntervalS() > 0 || asked.GetCheckpoint().GetIntervalAuto()
	}
	of.goesOn(t, s)
	switch want := s.Order.GetRestore(); {
	case want != nil && s.Image == nil:
		t.w.fail("runs unrestored: allocation %s starts from its script, and was to go on from image %d", s.Key, want.GetNumber())
	case from > of.furthest:
		t.w.fail("gap: allocation %s begins at %v, and its job had come to %v", s.Key, from, of.furthest)
	case self:
	case of.startsOver && from > 0:
		t.w.fail("not started over: allocation %s resumes at %v, and should start over", s.Key, from)
	case of.startsOver:
		of.furthest = 0
	case from < of.furthest && !repeats:
		t.w.fail("repeated: allocation %s begins at %v, and its job, which may not be requeued, had come to %v", s.Key, from, of.furthest)
	case of.left != (registry.Key{}) && of.excuse == "" && s.Image == nil:
		t.w.fail("lost: allocation %s starts over, and allocation %s stood still with image %d at %v", s.Key, of.left, of.number, of.stood)
	case of.left != (registry.Key{}) && of.excuse == "" && from != of.stood:
		t.w.fail("lost: allocation %s goes on at %v, and allocation %s stood still with image %d at %v", s.Key, from, of.left, of.number, of.stood)
	}
	if of.left != (registry.Key{}) && from == of.stood {
		t.w.Moved++
	} else if from < of.furthest {
		t.w.Repeated++
	}
	of.startsOver, of.left, of.number, of.excuse = false, registry.Key{}, 0, ""
}

// comes notes how far an allocation has come, when it does not run any more.
func (t *truth) comes(s *node.Shim) {
	if s.IsBatch() {
		of := t.workOf(s.Key.Job)
		of.furthest = max(of.furthest, s.Done())
	}
}

// excuse notes why a job may go on from another image than that with which it
// left, or start over.
func (t *truth) excuse(job uint32, why string) { t.workOf(job).excuse = why }

// deleted is told of each image that a node deletes.
func (t *truth) deleted(i *node.Image) {
	t.w.Deleted++
	if of := t.workOf(i.Key.Job); of.images[i.Digest] {
		t.w.fail("image deleted: %s is deleted by node %s, and its job needs it", i, i.Node.Name)
	}
}

// lost notes that an image is gone or spoiled by a fault.
func (t *truth) lost(i *node.Image) {
	i.Lost = true
	t.excuse(i.Key.Job, i.String()+" was lost")
}

// spoiled says whether a job that waits will never go on from its image.
func (t *truth) spoiled(job *state.Job) bool {
	images := job.Images()
	if job.Phase != state.Waiting || len(images) == 0 {
		return false
	}
	return slices.ContainsFunc(images[0].Allocs, func(alloc state.ImageAlloc) bool {
		i := t.images[string(alloc.Digest[:])]
		return i != nil && (i.Damaged || i.Hopeless)
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
	t.checkLoss(of.record, job)
	of.record = job
	former := t.present[job.ID]
	of.former, t.present[job.ID] = former, job.Epoch
	t.copied(of, job)
	if job.Phase == state.Ending && job.End.Frozen && was == state.Running {
		t.leaves(job, &job.Images()[0], job.End.Detail)
	}
	t.moves(job, former)
	t.checkLine(of, job)
	switch result.Kind {
	case state.KindAllocsEnded:
		saw := t.results[registry.Key{Job: job.ID, Epoch: former}]
		if was == state.Running && job.Phase != state.Finished && saw.GetCause() == pb.EndCause_END_CAUSE_EXITED {
			of.startsOver = true
		}
	case state.KindDropImages:
		t.w.Dropped++
		t.w.trace("log", "images of job %d are dropped: %s", job.ID, job.Detail)
		t.checkForgotten(before, job)
	}
	t.checkStartsOver(of, result, job, before)
}

// moves notes what became of a job's move, if that is decided: it has left, or it
// goes on where it stood.
func (t *truth) moves(job *state.Job, former uint32) {
	of := t.workOf(job.ID)
	failed := job.Saved != nil && job.Saved.MoveFailed != nil
	switch {
	case job.Phase == state.Running && job.Run.Moved && job.Epoch != former:
		t.w.Took++
		t.leaves(job, job.Run.Restore, "another run has taken its place")
	case failed && job.Saved.MoveFailed.Number != of.stayed:
		of.stayed = job.Saved.MoveFailed.Number
		t.w.Stayed++
		t.w.trace("log", "job %d does not move: %s", job.ID, job.Saved.MoveFailed.Reason)
	}
}

// leaves checks that a run which is over by its image stands still, and notes it.
func (t *truth) leaves(job *state.Job, image *state.Image, why string) {
	t.w.Left++
	of := t.workOf(job.ID)
	of.left, of.number, of.excuse = registry.Key{Job: job.ID, Epoch: image.Epoch}, image.Number, ""
	t.w.trace("log", "job %d leaves %v: %s", job.ID, image.Nodes(), why)
	for k, alloc := range image.Allocs {
		i := t.images[string(alloc.Digest[:])]
		if i == nil || !i.Somewhere() {
			t.w.fail("not durable: job %d leaves with image %d, whose allocation of node %s is nowhere", job.ID, image.Number, alloc.Node)
			return
		}
		if k == 0 { // of the batch host
			of.stood = i.Done
		}
		if i.Lost { // while the others were made
			of.excuse = i.String() + " was lost"
		}
	}
	if len(image.Allocs) > 1 {
		t.w.GangsLeft++
	}
	for s := range t.running[job.ID] {
		t.w.fail("runs on: allocation %s of job %d runs on %s, and leaves with image %d", s.Key, job.ID, s.Node.Name, image.Number)
	}
}

// startOver notes the jobs that somebody starts over.
func (w *World) startOver(result *state.Result) {
	if result.Kind != state.KindRequeueJobs || result.Refused != nil || result.Repeated {
		return
	}
	for i := range result.Jobs {
		if result.Jobs[i].Code == state.OK {
			w.truth.workOf(result.Jobs[i].Job).startsOver = true
		}
	}
}

package ordered

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// This file has what must hold of a job's images as a family. A run goes on only from
// one that comes before what really ran last: work that is undone never comes back. The
// newest is used unless it failed often or a node of it was away for long, and then the
// one before is; what that costs is counted and said. While there is one, the job does
// not start over by itself.

// stretch is an allocation of a job's line: what a run did, up to the image from which the
// next run went on.
type stretch struct {
	epoch uint32
	last  uint32 // the number of that image
}

// open is the last image of a run that goes on.
const open = 1<<32 - 1

// goesOn checks that a run, which begins to run now, is on the line of its job, and
// makes it the line's end.
func (of *work) goesOn(t *truth, s *node.Shim) {
	run := stretch{s.Key.Epoch, open}
	i := s.Image
	if i == nil {
		of.line = []stretch{run}
		return
	}
	if n := of.onLine(i.Key.Epoch, i.Number); n >= 0 {
		of.line = append(of.line[:n:n], stretch{i.Key.Epoch, i.Number}, run)
		return
	}
	t.w.fail("undone work comes back: allocation %s goes on from %s, and the line of its job is %v", s.Key, i, of.line)
}

// onLine is where an image of a run is on the line of its job; -1 = nowhere.
func (of *work) onLine(epoch, number uint32) int {
	return slices.IndexFunc(of.line, func(s stretch) bool { return s.epoch == epoch && number <= s.last })
}

// checkLine holds when a job waits: it has no image of work that is undone.
func (t *truth) checkLine(of *work, job *state.Job) {
	if job.Phase != state.Waiting {
		return
	}
	for i := range job.Images() {
		if image := &job.Images()[i]; of.onLine(image.Epoch, image.Number) < 0 {
			t.w.fail("undone work is kept: job %d waits with image %d of run %d, and its line is %v", job.ID, image.Number, image.Epoch, of.line)
		}
	}
}

// away is since when the log takes nodes for silent, by its own clock.
type away struct {
	since map[string]int64
	term  uint64
}

// hears follows which nodes are silent. To a new leader they may speak for the time of
// a lease before they count as away for long.
func (a *away) hears(view *state.View, result *state.Result) {
	for _, name := range result.ChangedNodes {
		node, known := view.Node(name)
		_, silent := a.since[name]
		switch {
		case !known || !node.NotResponding:
			delete(a.since, name)
		case !silent:
			a.since[name] = view.TimeMS()
		}
	}
	if term := view.Term(); term != a.term {
		a.term = term
		for name, since := range a.since {
			a.since[name] = max(since, view.TimeMS()-waitMS(view)+int64(view.LongestLeaseS())*1000)
		}
	}
}

// waitMS is for how long the policy has jobs wait for the node of their newest image.
func waitMS(view *state.View) int64 { return int64(view.Policy().ImageWaitS()) * 1000 }

// forLong says whether some part of an image lies only with nodes that have been silent
// for that long.
func (a *away) forLong(view *state.View, image *state.Image) bool {
	return slices.ContainsFunc(image.Allocs, func(alloc state.ImageAlloc) bool {
		return alloc.Store == "" && !slices.ContainsFunc(alloc.Holders(), func(name string) bool {
			since, silent := a.since[name]
			return !silent || view.TimeMS()-since < waitMS(view)
		})
	})
}

// mostRestores is how often restores of an image fail before the one before is used.
const mostRestores = 4

// due is the image from which a job that waits has to go on now, and why that is not
// the newest, if it is not.
func (t *truth) due(view *state.View, job *state.Job) (image *state.Image, why string) {
	images := job.Images()
	if !job.Spec.Requeue && job.Spec.Checkpoint.IntervalS == 0 && !job.Spec.Checkpoint.IntervalAuto {
		return &images[0], "" // what is before it was done already, and nothing may be done twice
	}
	failed := map[uint32]int{}
	for _, try := range job.Saved.Tries {
		failed[try.Number]++
	}
	for i := range images {
		switch {
		case failed[images[i].Number] >= mostRestores:
			why = "restores of it failed"
		case t.away.forLong(view, &images[i]):
			why = "a node of it was away for long"
			if image == nil {
				image = &images[i] // to wait for, if there is none that can be had
			}
		default:
			return &images[i], why
		}
	}
	if image == nil {
		image = &images[0]
	}
	return image, why
}

// checkDue is asked of each job that starts.
func (t *truth) checkDue(view *state.View, job *state.Job) {
	if len(job.Images()) == 0 {
		return
	}
	newest, from := &job.Images()[0], job.Run.Restore
	want, why := t.due(view, job)
	switch {
	case from == nil:
		t.w.fail("starts over: job %d starts with its script, and has image %d", job.ID, newest.Number)
	case from.Number != want.Number:
		t.w.fail("wrong choice: job %d goes on from image %d, and was to go on from image %d of %v", job.ID, from.Number, want.Number, numbers(job))
	case from.Number != newest.Number:
		t.excuse(job.ID, why)
		t.w.Older++
		t.w.trace("log", "job %d goes on from image %d of %v: %s", job.ID, from.Number, numbers(job), why)
	}
}

// checkWaiting is asked of all that wait, now and then: none waits for an image that is
// given up, for one that another comes before, or to start over.
func (t *truth) checkWaiting(view *state.View) {
	for job := range view.WithImages {
		if job.Phase != state.Waiting {
			continue
		}
		want, _ := t.due(view, job)
		next := view.NextImage(job, view.TimeMS())
		if next == nil {
			t.w.fail("starts over: job %d waits to start with its script, and has images %v", job.ID, numbers(job))
		} else if next.Number != want.Number {
			t.w.fail("wrong choice: job %d waits for image %d, and was to wait for image %d of %v", job.ID, next.Number, want.Number, numbers(job))
		}
	}
}

func numbers(job *state.Job) (all []uint32) {
	for i := range job.Images() {
		all = append(all, job.Images()[i].Number)
	}
	return all
}

// checkLoss looks at what an entry made of a job: once the newest image of it is not
// needed any more, because an older one took its place, the work between the two is
// counted as lost, and said.
func (t *truth) checkLoss(was, job *state.Job) {
	if was == nil || len(was.Images()) == 0 || len(job.Images()) == 0 {
		return
	}
	newest, ranMS := &was.Images()[0], int64(0)
	run, epoch := job.Run, job.Epoch
	if run == nil {
		run = was.Run
	}
	switch {
	case slices.Contains(numbers(job), newest.Number):
		return
	case run == nil: // it is gone
		ranMS = job.Images()[0].RanMS
	case newest.Epoch == epoch || run.Restore != nil && newest.Number <= run.Restore.Number:
		return // others came after it
	case run.Restore != nil:
		ranMS = run.Restore.RanMS
	}
	lost := max(newest.RanMS-ranMS, 0)
	said := fmt.Sprintf(": %d s of work were undone", (lost+500)/1000)
	if got := job.Saved.UndoneMS - was.Saved.UndoneMS; got != lost || !strings.HasSuffix(job.Saved.Undone, said) {
		t.w.fail("loss unsaid: job %d went on without image %d, which costs %d ms; the log counts %d and says %q", job.ID, newest.Number, lost, got, job.Saved.Undone)
	}
	t.w.Undone++
}

// checkStartsOver: a job that waits has lost its images only because somebody said so,
// its script had ended, or none of them is left.
func (t *truth) checkStartsOver(of *work, result *state.Result, job *state.Job, before map[string]bool) {
	if len(before) == 0 || len(of.images) > 0 || job.Phase != state.Waiting || of.startsOver {
		return
	}
	if result.Kind != state.KindRequeueJobs && result.Kind != state.KindDropImages {
		t.w.fail("starts over: job %d has lost its images by %s: %s", job.ID, result.Kind, job.Detail)
	}
}

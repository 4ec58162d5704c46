package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file decides how a job continues after its run is over: whether it does,
// where, and what becomes of it if that fails. lineage.go decides from which of
// its images.
//
// If an image cannot be restored on one node, it is tried on the others that
// can reach it, and there again, maxRestoreTries times in all; then comes the
// image before. A try that fails before the restore does not count: the launch
// failed, or the image did not arrive, which does not count against it for as
// long as it is waited for (ImageWait). If none is left to try, the job is
// held: while there is an image, the job never starts over because something
// failed. A job that may not be requeued resumes only where no work is
// repeated: from an image with which its run ended, or, if it asked to be saved
// at intervals, from the newest.

// maxRestoreTries is how often in a row restores of one image may fail.
const maxRestoreTries = 4

// mayRepeat reports whether the job allows that work is repeated.
func (j *Job) mayRepeat() bool {
	return j.Spec.Requeue || j.Spec.Checkpoint.IntervalS > 0 || j.Spec.Checkpoint.IntervalAuto
}

// goesOnAfterLoss reports whether a job that may not be requeued resumes from
// its newest image when its node fails: it asked for saves for that purpose.
func (j *Job) goesOnAfterLoss() bool { return len(j.Images()) > 0 && j.mayRepeat() }

func (j *Job) goesOnText() string {
	if len(j.Images()) == 0 {
		return ""
	}
	return fmt.Sprintf("; resumes from image %d", j.Images()[0].Number)
}

// RestoreSets are the nodes that could resume from an image of a waiting job as
// far as the records tell: sets with a node for each of its allocations, in
// their order. Each node has to be asked whether it can. A job on one node has
// a set for each node that could, ascending by name; those in failed, on which
// a restore of it has failed, are tried again only if none of the others can. For
// a job on several, refused reports whether a node has said that it cannot resume
// a part: see gangRestoreSets.
func (v *View) RestoreSets(job *Job, image *Image, refused func(part int, node string) bool) (sets, failed [][]string) {
	if len(image.Allocs) > 1 {
		return v.gangRestoreSets(job, image, refused)
	}
	for node := range v.Nodes() {
		set := []string{node.Name}
		switch {
		case v.cannotTake(job, set, image) != "":
		case job.Saved.failedOn(image.Number, node.Name) || job.failedOn(node.Name):
			failed = append(failed, set)
		default:
			sets = append(sets, set)
		}
	}
	return sets, failed
}

// Wish narrows the sets of nodes that can resume a job that was moved to where
// it was sent, or away from where it was, until a time. Once none of these can,
// and none is open, which means that it has not answered, the wish is void: the
// job continues where it can.
func (j *Job) Wish(can, open [][]string, nowMS int64) [][]string {
	saved := j.Saved
	if saved == nil || nowMS >= saved.UntilMS {
		return can
	}
	wished := func(sets [][]string) [][]string {
		return slices.DeleteFunc(slices.Clone(sets), func(set []string) bool {
			return set[0] == saved.From || len(saved.To) > 0 && !slices.Equal(set, saved.To)
		})
	}
	if there := wished(can); len(there) > 0 || len(wished(open)) > 0 {
		return there
	}
	return can
}

// resumeFrom checks that a start names the image from which the job resumes
// now, and has the run resume from there.
func (s *State) resumeFrom(job *Job, run *Run, number uint32) error {
	image := s.NextImage(job, s.timeMS)
	switch {
	case image == nil && number == 0:
		return nil
	case image == nil || image.Number != number:
		return fmt.Errorf("job %d does not resume from image %d now", job.ID, number)
	case len(run.Allocs) != len(image.Allocs):
		return fmt.Errorf("job %d was saved on %d nodes, and is to resume on %d", job.ID, len(image.Allocs), len(run.Allocs))
	}
	if err := run.fitsImage(job, image); err != nil {
		return err
	}
	from := *image
	run.Restore = &from
	return nil
}

// fitsImage says how a run differs from what it had when it was saved.
func (r *Run) fitsImage(job *Job, image *Image) error {
	for i := range r.Allocs {
		alloc, from := &r.Allocs[i], &image.Allocs[i]
		if gpus := uint32(len(alloc.Devices)); gpus != from.GPUs {
			return fmt.Errorf("job %d was saved with %d GPUs on node %s, not %d", job.ID, from.GPUs, from.Node, gpus)
		}
		for _, device := range alloc.Devices {
			if device.Model != image.Model {
				return fmt.Errorf("job %d was saved with GPUs of model %s, not %s", job.ID, image.Model, device.Model)
			}
		}
		if len(r.Allocs) > 1 && alloc.Tasks != from.Tasks {
			return fmt.Errorf("job %d was saved with %d tasks on node %s, not %d", job.ID, from.Tasks, from.Node, alloc.Tasks)
		}
	}
	return nil
}

// nodes are those of a run, in the order of its allocations.
func (r *Run) nodes() []string {
	names := make([]string, len(r.Allocs))
	for i := range r.Allocs {
		names[i] = r.Allocs[i].Node
	}
	return names
}

// restoreFailed is the end of a run that was not restored. A failure before the
// restore is no fault of the image: it counts as it does for any job.
func restoreFailed(job *Job, report *AllocReport) End {
	end := End{
		State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Unrestored: true, FailedOn: report.Node,
		Detail: withColon(fmt.Sprintf("image %d could not be restored", job.Run.Restore.Number), report.Node, report.Detail),
	}
	switch report.Cause {
	case pb.EndCause_END_CAUSE_NODE_FAULT, pb.EndCause_END_CAUSE_NODE_FULL:
		end.Reason = ReasonJobLaunchFailure
	case pb.EndCause_END_CAUSE_OTHER_ACCOUNT, pb.EndCause_END_CAUSE_NOT_ADMITTED:
		end.Reason, end.Elsewhere = ReasonJobLaunchFailure, true
	case pb.EndCause_END_CAUSE_IMAGE_AWAY:
		end.Elsewhere = true
	}
	return end
}

// keepImages fills in what a job resumes from that waits again after a run, and
// how the run ended. next is about to lose the run.
func (s *State) keepImages(job, next *Job, end *End) {
	if end.StartOver || len(job.Images()) == 0 || end.overByItself() {
		next.Saved = job.Saved.over()
		return
	}
	_, saved := job.withSaved()
	next.Saved = saved
	saved.WaitsMS = s.timeMS
	if job.Run == nil {
		return
	}
	saved.noteAsSaved(job, end)
	if !end.Unrestored {
		if !job.IsGang() || job.everyReady() { // the allocations of several are frozen until all are ready
			saved.wentOn(job)
		}
		saved.forgetTries()
		saved.keepWork(job)
		if end.Frozen { // it did not get the room that it waited for
			next.AgedMS = job.AgedMS + max(job.Run.StartMS-job.EligibleMS, 0)
		} else {
			saved.To, saved.From, saved.UntilMS = nil, "", 0
		}
		return
	}
	switch number := job.Run.Restore.Number; {
	case end.Reason != ReasonNone: // it failed before the restore
	case end.Elsewhere && saved.mayBeAway(number, s.timeMS, s.imageWaitMS()):
	default:
		saved.Tries = append(saved.Tries, RestoreTry{Number: number, Node: end.FailedOn})
	}
	next.AgedMS = job.AgedMS + max(job.Run.StartMS-job.EligibleMS, 0)
	next.holdHopeless(end.Detail)
}

// noteAsSaved notes since which image nothing of a job has run, whose run is over.
func (s *Saved) noteAsSaved(job *Job, end *End) {
	switch {
	case end.Frozen:
		s.AsSaved = s.Images[0].Number
	case !end.Unrestored && (!job.IsGang() || job.everyReady()):
		s.AsSaved = 0
	}
}

// asSaved reports whether nothing of a job has run since an image of it was made.
func (j *Job) asSaved(image *Image) bool {
	return j.frozenBy() == image.Number || j.Saved != nil && j.Saved.AsSaved == image.Number
}

// overByItself says that the run ended with its script, which a policy or the
// job itself wants started again: there is nothing to resume.
func (e *End) overByItself() bool { return e.Reason == ReasonNonZeroExitCode }

// keepWork counts the work of a finished run that was not lost, because the job
// resumes from an image of it.
func (s *Saved) keepWork(job *Job) {
	if len(s.Images) == 0 || s.Images[0].Epoch != job.Epoch {
		return
	}
	newest := &s.Images[0]
	kept := max(newest.SavedMS-job.Run.StartMS, 0)
	s.KeptGPUMS += min(times(kept, job.Run.units(), 1), maxKeptGPUMS-s.KeptGPUMS)
}

// maxKeptGPUMS is where the count stops.
const maxKeptGPUMS = 1 << 60

// startingOver is a waiting job whose images are no longer used, on request.
func (j *Job) startingOver(why string) *Job {
	next := *j
	next.Saved = j.Saved.over()
	next.Detail = bounds.Clip("starts over, though it had been saved: "+why, bounds.MaxTextBytes)
	return &next
}

// limitLeftS is a time limit minus what the job had run when it was saved; at
// least a minute, since the job needs time until its processes are back.
func (i *Image) limitLeftS(limitS uint32) uint32 {
	return max(i.exactlyLeftS(limitS), min(limitS, 60))
}

// exactlyLeftS is a time limit minus what the job had run when it was saved; at least a
// second, because without a limit it would have none. So nobody gains time by moving.
func (i *Image) exactlyLeftS(limitS uint32) uint32 {
	if limitS == sched.Unlimited {
		return limitS
	}
	ran := min(i.RanMS/1000, int64(limitS))
	return max(limitS-uint32(ran), min(limitS, 1))
}

// resizes reports whether a change concerns what a job has on its node, which
// stays as it was when it was saved.
func (c *JobChange) resizes() bool {
	return c.MinNodes != nil || c.MaxNodes != nil || c.Tasks != nil || c.TasksPerNode != nil || c.CPUsPerTask != nil ||
		c.MemoryPerNode != nil || c.MemoryPerCPU != nil || c.GPUs != nil || c.Exclusive != nil || c.Network != nil || c.TmpPerNode != nil
}

package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file decides from what a job goes on whose run is over: from which image,
// where it may, how often that is tried, and when it starts over instead.
//
// A job goes on from its newest image. If that cannot be restored, the one before
// is tried, and then the newest on another node, maxRestoreTries times in all.
// Then the job starts over if it may be requeued, and is held otherwise. One that
// may not be requeued goes on only from where nothing is done twice: from an image
// with which its run ended, or, if it asked to be saved every now and then, from
// the newest.

// maxRestoreTries is how often in a row a job may fail to be restored.
const maxRestoreTries = 4

// ImageWaitMS is how long a job that may be requeued waits for a node that can go
// on with its image, before it starts over.
const ImageWaitMS = 15 * 60 * 1000

// mayRepeat says whether the job lets something be done twice.
func (j *Job) mayRepeat() bool {
	return j.Spec.Requeue || j.Spec.Checkpoint.IntervalS > 0 || j.Spec.Checkpoint.IntervalAuto
}

// goesOnAfterLoss says whether a job that may not be requeued goes on from its
// newest image when its node fails: it asked to be saved for that.
func (j *Job) goesOnAfterLoss() bool { return len(j.Images()) > 0 && j.mayRepeat() }

func (j *Job) goesOnText() string {
	if len(j.Images()) == 0 {
		return ""
	}
	return fmt.Sprintf("; goes on from image %d", j.Images()[0].Number)
}

// NextImage is that from which a waiting job goes on; nil when it starts with its
// script. Of its images, that with the fewest failed restores, the newest first.
func (j *Job) NextImage() *Image {
	images := j.Images()
	if j.Phase != Waiting || len(images) == 0 {
		return nil
	}
	best, fewest := &images[0], j.Saved.failures(images[0].Number)
	for i := 1; i < len(images) && j.mayRepeat(); i++ {
		if failures := j.Saved.failures(images[i].Number); failures < fewest {
			best, fewest = &images[i], failures
		}
	}
	return best
}

func (s *Saved) failures(number uint32) (count int) {
	for _, try := range s.Tries {
		if try.Number == number {
			count++
		}
	}
	return count
}

// failedOn says whether a restore of an image has failed on a node.
func (s *Saved) failedOn(number uint32, node string) bool {
	return slices.Contains(s.Tries, RestoreTry{Number: number, Node: node})
}

// RestoreSets are the nodes that could go on with the next image of a waiting job
// as far as the records tell: sets with a node for each of its parts, in their
// order. Whether they can, each node has to be asked. A job on one node has a set
// for each that could, ascending by name; those in failed, on which a restore of it
// has failed, are tried again only if none of the others can. A job on several goes
// on on its own nodes, whose names its processes know, or where it was sent.
func (v *View) RestoreSets(job *Job) (sets, failed [][]string) {
	image := job.NextImage()
	if image == nil {
		return nil, nil
	}
	if len(image.Parts) > 1 {
		return v.gangRestoreSets(job, image), nil
	}
	for node := range v.Nodes() {
		set := []string{node.Name}
		switch {
		case v.cannotTake(job, set, image) != "":
		case job.Saved.failedOn(image.Number, node.Name):
			failed = append(failed, set)
		default:
			sets = append(sets, set)
		}
	}
	return sets, failed
}

func (v *View) gangRestoreSets(job *Job, image *Image) (sets [][]string) {
	own, to := image.Nodes(), job.Saved.To
	if len(to) == len(own) && !slices.Equal(to, own) && v.cannotTake(job, to, image) == "" {
		sets = append(sets, to)
	}
	if v.cannotTake(job, own, image) == "" {
		sets = append(sets, own)
	}
	return sets
}

// Wish narrows the sets of nodes that can go on with a job that was moved to where
// it was sent, or away from where it was, until a time. Once none of these can, and
// none is open, which are those that have not answered, the wish is void: the job
// goes on where it can.
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

// goOn checks that a start is from the image from which the job goes on now, and
// has the run go on from there.
func (s *State) goOn(job *Job, run *Run, number uint32) error {
	image := job.NextImage()
	switch {
	case image == nil && number == 0:
		return nil
	case image == nil || image.Number != number:
		return fmt.Errorf("job %d does not go on from image %d now", job.ID, number)
	case len(run.Parts) != len(image.Parts):
		return fmt.Errorf("job %d was saved on %d nodes, and is to go on on %d", job.ID, len(image.Parts), len(run.Parts))
	case len(run.Parts) > 1 && !slices.Equal(run.nodes(), image.Nodes()) && !slices.Equal(run.nodes(), job.Saved.To):
		return fmt.Errorf("job %d was saved on nodes %v and not sent to %v", job.ID, image.Nodes(), run.nodes())
	}
	for i := range run.Parts {
		part, from := &run.Parts[i], &image.Parts[i]
		if gpus := uint32(len(part.Devices)); gpus != from.GPUs {
			return fmt.Errorf("job %d was saved with %d GPUs on node %s, not %d", job.ID, from.GPUs, from.Node, gpus)
		}
		for _, device := range part.Devices {
			if device.Model != image.Model {
				return fmt.Errorf("job %d was saved with GPUs of model %s, not %s", job.ID, image.Model, device.Model)
			}
		}
		if len(run.Parts) > 1 && part.Tasks != from.Tasks {
			return fmt.Errorf("job %d was saved with %d tasks on node %s, not %d", job.ID, from.Tasks, from.Node, part.Tasks)
		}
	}
	from := *image
	run.Restore = &from
	return nil
}

// nodes are those of a run, in the order of its parts.
func (r *Run) nodes() []string {
	names := make([]string, len(r.Parts))
	for i := range r.Parts {
		names[i] = r.Parts[i].Node
	}
	return names
}

// restoreFailed is the end of a run that was not restored.
func restoreFailed(job *Job, report *PartReport) End {
	detail := withColon(fmt.Sprintf("image %d could not be restored", job.Run.Restore.Number), report.Node, report.Detail)
	return End{State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Unrestored: true, Detail: detail}
}

// keepImages fills in from what a job goes on that waits again after a run, and
// what came of the run. next is about to lose the run.
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
	if !end.Unrestored {
		saved.Tries = nil
		saved.keepWork(job)
		if end.Stands { // it did not get what it waited for
			next.AgedMS = job.AgedMS + max(job.Run.StartMS-job.EligibleMS, 0)
		} else {
			saved.To, saved.From, saved.UntilMS = nil, "", 0
		}
		return
	}
	saved.Tries = append(saved.Tries, RestoreTry{Number: job.Run.Restore.Number, Node: job.Run.BatchHost()})
	next.AgedMS = job.AgedMS + max(job.Run.StartMS-job.EligibleMS, 0)
	if len(saved.Tries) < maxRestoreTries {
		return
	}
	if job.Spec.Requeue {
		*next = *next.startingOver(fmt.Sprintf("%d restores failed, the last one because %s", len(saved.Tries), end.Detail))
		return
	}
	saved.Tries = saved.Tries[1:]
	if next.Held == sched.NotHeld {
		next.Held = sched.LaunchFailed
	}
	next.Detail = clip(end.Detail+"; held, because it was submitted with --no-requeue: gcontrol requeue lets it start over, gcontrol release tries to go on", MaxTextBytes)
}

// overByItself says that the run ended with its script, which a policy or the job
// itself wants started again: there is nothing to go on with.
func (e *End) overByItself() bool { return e.Reason == ReasonNonZeroExitCode }

// keepWork counts the work of a run that is over and that was not lost, because
// the job goes on from an image of it.
func (s *Saved) keepWork(job *Job) {
	newest := &s.Images[0]
	if newest.Epoch != job.Epoch {
		return
	}
	kept := max(newest.SavedMS-job.Run.StartMS, 0)
	s.KeptGPUMS += min(times(kept, job.Run.units(), 1), maxKeptGPUMS-s.KeptGPUMS)
}

// maxKeptGPUMS is where the count stops.
const maxKeptGPUMS = 1 << 60

// startingOver is a waiting job whose images are not used any more.
func (j *Job) startingOver(why string) *Job {
	next := *j
	next.Saved = j.Saved.over()
	next.Detail = clip("starts over, though it had been saved: "+why, MaxTextBytes)
	return &next
}

// limitLeftS is a time limit less what the job had run when it was saved; at
// least a minute, since nothing is done before its processes are back.
func (i *Image) limitLeftS(limitS uint32) uint32 {
	if limitS == sched.Unlimited {
		return limitS
	}
	ran := min(i.RanMS/1000, int64(limitS))
	return max(limitS-uint32(ran), min(limitS, 60))
}

// resizes says whether the change is of what a job has on its node, which stays
// as it was when it was saved.
func (c *JobChange) resizes() bool {
	return c.MinNodes != nil || c.MaxNodes != nil || c.Tasks != nil || c.TasksPerNode != nil || c.CPUsPerTask != nil ||
		c.MemoryPerNode != nil || c.MemoryPerCPU != nil || c.GPUs != nil || c.Exclusive != nil
}

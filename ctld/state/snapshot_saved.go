package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file fills in what a snapshot says of jobs that can be saved, and of those
// that go on from an image.

// Told is what nodes have told the leader, and the state does not know. The zero
// value knows nothing.
type Told struct {
	// Savable says whether a running job could be saved now.
	Savable func(*Job) bool
	// Restorable are the nodes that can go on with the next image of a waiting job,
	// ascending by name; of a job on several nodes as many as it had, or none.
	Restorable func(*Job) []string
}

// schedSaved fills in what a running job loses when it makes room.
func (v *View) schedSaved(job *Job, out *sched.Running, told Told) {
	out.Ending = out.Ending || job.Leaving()
	images := job.Images()
	if len(images) > 0 && (images[0].Epoch == job.Epoch || job.Run.Restore != nil) {
		out.SavedMS = max(images[0].SavedMS, job.Run.StartMS)
		out.RestoreS = images[0].restoreS()
	}
	if told.Savable == nil || job.Phase != Running || v.level < LevelFrozen || job.NotSavable() != "" || job.Configuring() {
		return
	}
	if out.Saves = told.Savable(job); out.Saves && len(images) == 0 {
		out.RestoreS = guessedRestoreS
	}
}

// guessedRestoreS is what it takes to go on with a job that was not saved yet.
const guessedRestoreS = 30

// restoreS is about how long it takes to go on from an image: as long as it took
// to save it.
func (i *Image) restoreS() uint32 { return (i.PackMS+i.StandingMS)/1000 + 1 }

// schedGoOn gives a job that goes on from an image a shape of its own: as many nodes
// as it had, of those that can, with the same on each, GPUs of the same model, and
// the time that is left to it.
func (v *View) schedGoOn(snapshot *sched.Snapshot, job *Job, out *sched.Job, told Told) {
	image := job.NextImage()
	if image == nil {
		return
	}
	var nodes []string
	if told.Restorable != nil {
		nodes = told.Restorable(job)
	}
	out.Image, out.NowhereToGoOn = image.Number, len(nodes) == 0
	shape := snapshot.Shapes[out.Shape]
	shape.TimeLimitS = image.limitLeftS(shape.TimeLimitS)
	shape.Request = image.request(shape.Request)
	shape.Request.AmongNodes = nodes
	out.Shape = len(snapshot.Shapes)
	snapshot.Shapes = append(snapshot.Shapes, shape)
}

// nextImage is the number of that from which a waiting job of a snapshot goes on;
// 0 = none.
func nextImage(snapshot *sched.Snapshot, id sched.JobID) uint32 {
	at, found := slices.BinarySearchFunc(snapshot.Waiting, id, func(job sched.Job, id sched.JobID) int { return cmp.Compare(job.ID, id) })
	if !found {
		return 0
	}
	return snapshot.Waiting[at].Image
}

// request is what a job needs to go on from an image, of what it asked for.
func (i *Image) request(asked place.Request) place.Request {
	nodes, part := uint32(len(i.Parts)), &i.Parts[0]
	asked.MinNodes, asked.MaxNodes = nodes, nodes
	if part.GPUs > 0 {
		asked.Model = i.Model
	}
	if nodes == 1 {
		return asked
	}
	if asked.Tasks > 0 {
		asked.Tasks, asked.TasksPerNode = nodes*part.Tasks, part.Tasks
	}
	if asked.GPUsPerJob > 0 {
		asked.GPUsPerJob, asked.GPUsPerNode = 0, part.GPUs
	}
	return asked
}

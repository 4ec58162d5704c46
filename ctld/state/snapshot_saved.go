package state

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file fills in a snapshot's part about jobs that can be saved, and jobs
// that resume from an image.

// NodeReports is what nodes have reported to the leader, or its calendar says, and the
// state does not know. The zero value knows nothing.
type NodeReports struct {
	// Savable reports whether a running job could be saved now.
	Savable func(*Job) bool
	// Restorable are the nodes that can resume from an image of a waiting job,
	// ascending by name; of a job on several nodes as many as it had, or none.
	Restorable func(*Job, *Image) []string
	// Pulls reports whether a waiting job waits for its container image, and the nodes,
	// ascending by name, to which that does not come.
	Pulls func(*Job) (waits bool, without []string)
	// Reserved are when a reservation that repeats is in force after its present time, and
	// Unlent when a node is not lent by the hours of its terms; ascending, as far as the
	// calendar was looked at.
	Reserved func(*Reservation) []Span
	Unlent   func(*Node) []Span
}

// Span is from when on, and until when, in Unix milliseconds.
type Span struct{ FromMS, ToMS int64 }

// schedSaved fills in what a running job loses when it makes room.
func (v *View) schedSaved(job *Job, out *sched.Running, told NodeReports) {
	out.Ending = out.Ending || job.Leaving()
	images := job.Images()
	if len(images) > 0 && (images[0].Epoch == job.Epoch || job.Run.Restore != nil) {
		out.SavedMS = max(images[0].SavedMS, job.Run.StartMS)
		out.RestoreS = images[0].restoreS()
	}
	if told.Savable == nil || job.Phase != Running || job.NotSavable() != "" || job.Configuring() {
		return
	}
	if out.Saves = told.Savable(job); out.Saves && len(images) == 0 {
		out.RestoreS = guessedRestoreS
	}
}

// guessedRestoreS is what it takes to resume a job that was not saved yet.
const guessedRestoreS = 30

// restoreS is about how long it takes to resume from an image: as long as it
// took to save it.
func (i *Image) restoreS() uint32 { return (i.PackMS+i.StandingMS)/1000 + 1 }

// schedResume gives a job that resumes from an image a shape of its own: as
// many nodes as it had, of those that can, with the same on each, GPUs of the
// same model, and the time that is left to it.
func (v *View) schedResume(snapshot *sched.Snapshot, job *Job, out *sched.Job, told NodeReports) {
	image := v.NextImage(job, max(snapshot.NowMS, v.timeMS))
	if image == nil {
		return
	}
	var nodes []string
	if told.Restorable != nil {
		nodes = told.Restorable(job, image)
	}
	out.Image, out.NowhereToResume = image.Number, len(nodes) == 0
	shape := snapshot.Shapes[out.Shape]
	shape.TimeLimitS, shape.TimeMinS = image.limitLeftS(shape.TimeLimitS), image.limitLeftS(shape.TimeMinS)
	shape.Request = image.request(shape.Request)
	shape.Request.AmongNodes = nodes
	out.Shape = len(snapshot.Shapes)
	snapshot.Shapes = append(snapshot.Shapes, shape)
}

// nextImage is the number of the image from which a waiting job of a snapshot
// resumes; 0 = none.
func nextImage(snapshot *sched.Snapshot, id sched.JobID) uint32 {
	at, found := slices.BinarySearchFunc(snapshot.Waiting, id, func(job sched.Job, id sched.JobID) int { return cmp.Compare(job.ID, id) })
	if !found {
		return 0
	}
	return snapshot.Waiting[at].Image
}

// request is what a job needs to resume from an image, out of its original
// request.
func (i *Image) request(asked place.Request) place.Request {
	nodes, alloc := uint32(len(i.Allocs)), &i.Allocs[0]
	asked.MinNodes, asked.MaxNodes = nodes, nodes
	if alloc.GPUs > 0 {
		asked.Model = i.Model
	}
	for at := range i.Allocs {
		asked.TmpPerNode = max(asked.TmpPerNode, i.Allocs[at].Tmp)
	}
	if nodes == 1 {
		return asked
	}
	if asked.Tasks > 0 {
		asked.Tasks, asked.TasksPerNode = nodes*alloc.Tasks, alloc.Tasks
	}
	if asked.GPUsPerJob > 0 {
		asked.GPUsPerJob, asked.GPUsPerNode = 0, alloc.GPUs
	}
	return asked
}

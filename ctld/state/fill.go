package state

import (
	"fmt"
	"math"

	words "github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched"
)

// This file has jobs that fill holes of the plan: they start where there is less time than
// their limits, and are saved when what is planned needs their nodes. Package sched decides
// which; here is who may, and how long saving them takes at most.

// saveMargin is how many times longer than it was measured a save may take, and endS is
// until a job that was saved has left its nodes.
const (
	saveMargin = 2
	endS       = 5
)

// guessedSaveRate is how many bytes a millisecond a save takes where none was measured.
const guessedSaveRate = 50 << 20 / 1000

// measuredFrom is the least size of an image that says how fast saves are: small ones take
// as long as it takes to begin.
const measuredFrom = 16 << 20

// mayFill reports whether a waiting job may start in a hole: it can be saved as far as is
// known, and does not mind to begin again if it cannot. One that lost its work because it
// could not be saved does not fill another.
func (j *Job) mayFill() bool {
	failed := j.Saved != nil && j.Saved.FailedMS != 0
	if j.NeverSaved() || !j.Spec.Requeue || failed {
		return false
	}
	return len(j.Images()) > 0 || j.LostBefore().LostGPUMS == 0 && j.Spec.shape.Request.Least().Nodes <= 1
}

// NeverSaved reports whether the system saves the job at no time, as it was submitted.
func (j *Job) NeverSaved() bool {
	mode := j.Spec.Checkpoint.Mode
	return mode == words.CheckpointNone || mode == words.CheckpointApp
}

// slowestSave is how many bytes a millisecond the slowest of the saves took whose images
// are kept.
func (t *tables) slowestSave() uint64 {
	slowest := uint64(math.MaxUint64)
	t.WithImages(func(job *Job) bool {
		for i := range job.Images() {
			if image := &job.Saved.Images[i]; image.largest() >= measuredFrom {
				slowest = min(slowest, max(image.largest()/image.tookMS(), 1))
			}
		}
		return true
	})
	if slowest == math.MaxUint64 {
		return guessedSaveRate
	}
	return slowest
}

// largest is the size of the largest of its parts.
func (i *Image) largest() (bytes uint64) {
	for at := range i.Allocs {
		bytes = max(bytes, i.Allocs[at].Bytes)
	}
	return bytes
}

// tookMS is how long it took until it was there; at least 1.
func (i *Image) tookMS() uint64 { return max(uint64(i.PackMS), uint64(i.StandingMS), 1) }

// saveBoundS is how long it takes at most until a job is saved and gone: by the slowest of
// its own saves, or if there is none by the memory that it may have. bytes is that of a
// node; 0 = nobody knows, and then 0 is the answer.
func (j *Job) saveBoundS(bytes, rate uint64) uint32 {
	tookMS := bytes / max(rate, 1)
	if len(j.Images()) > 0 {
		tookMS = 0
		for i := range j.Images() {
			tookMS = max(tookMS, j.Saved.Images[i].tookMS())
		}
	} else if bytes == 0 {
		return 0
	}
	return uint32(min(saveMargin*(tookMS/1000+1)+endS, SaveTimeoutS))
}

// schedFill fills in whether a waiting job may start in a hole.
func (v *View) schedFill(job *Job, out *sched.Job, rate uint64) {
	if !job.mayFill() {
		return
	}
	least := job.Spec.shape.Request.Least()
	bytes := max(least.NodeMemoryBytes, least.MemoryBytes)
	if least.WholeMemory {
		bytes = 0
	}
	out.SaveS, out.RestoreS = job.saveBoundS(bytes, rate), guessedRestoreS
	if images := job.Images(); len(images) > 0 {
		out.RestoreS = images[0].restoreS()
	} else if bytes > 0 {
		out.RestoreS = uint32(min(bytes/rate/1000+1, math.MaxUint32))
	}
}

// schedFills fills in whether a running job fills a hole, and when it should be gone.
func (j *Job) schedFills(out *sched.Running, rate uint64) {
	if out.Fills = j.Run.Fills; !out.Fills {
		return
	}
	bytes := uint64(1)
	for i := range j.Run.Allocs {
		bytes = max(bytes, j.Run.Allocs[i].MemoryBytes)
	}
	out.SaveS = j.saveBoundS(bytes, rate)
	switch {
	case j.Leaving():
		out.GoneByMS = j.Run.Saving.Order.GoneByMS
	case j.End != nil && j.End.Preempted != nil:
		out.GoneByMS = j.End.Preempted.ByMS
	}
}

// plannedWords name what a job in a hole makes room for.
func (o *PreemptOrder) plannedWords() string {
	if o.For == 0 {
		return "what is planned on its nodes"
	}
	return fmt.Sprintf("job %d, which is planned on its nodes", o.For)
}

// forWords name what a job that was saved makes room for.
func (o *PreemptOrder) forWords() string {
	if o.Fills {
		return o.plannedWords()
	}
	return fmt.Sprintf("job %d", o.For)
}

// fillsText says of a running job that it fills a hole; "" = it does not.
func (j *Job) fillsText() string {
	if j.Phase != Running || !j.Run.Fills {
		return ""
	}
	return "fills a hole in the plan: it is saved, and waits again, when its nodes are needed"
}

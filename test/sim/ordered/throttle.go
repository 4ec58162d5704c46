package ordered

import (
	"cmp"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// drawThrottle has some arrays run few tasks at once.
func (w *World) drawThrottle(in *intent) {
	if array := in.spec.GetArray(); array != nil && w.rng.IntN(2) == 0 {
		array.MaxRunning = uint32(1 + w.rng.IntN(2))
	}
}

// checkThrottle is asked of each start: with it no more tasks of the array hold
// nodes than its throttle lets, which may have been changed meanwhile.
func (w *World) checkThrottle(in *intent, job *state.Job) {
	most := job.Spec.MaxRunning
	if most == 0 {
		return
	}
	running := uint32(0)
	for _, index := range in.indices() {
		if w.lives[taskOf{cmp.Or(job.Array, job.ID), index}].holds() {
			running++
		}
	}
	if running > most {
		w.fail("throttle passed: task %d of array %d starts, and %d of its tasks have nodes, of %d", job.Task, job.Array, running, most)
	}
}

package ordered

import (
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// A moment is just after a command was committed, and before the leader that
// proposed it knows: what is worst for a leader to die at, and far too short
// for a fault at a time of its own to meet.
var moments = []struct {
	name string
	is   func(w *World, result *state.Result) bool
}{
	{"a job is to run again", func(w *World, result *state.Result) bool { return w.requeuedNow }},
	{"an allocation has ended", func(_ *World, r *state.Result) bool { return r.Kind == state.KindAllocsEnded }},
	{"a job starts", func(_ *World, r *state.Result) bool { return r.Kind == state.KindPlaceJobs && len(r.Starts) > 0 }},
	{"a node registers", func(_ *World, r *state.Result) bool { return r.Kind == state.KindRegisterNode }},
	{"a job is accepted", func(_ *World, r *state.Result) bool { return r.Kind == state.KindSubmitJob && r.JobID != 0 }},
	{"a save has ended", func(_ *World, r *state.Result) bool { return r.Kind == state.KindAllocsSaved }},
	{"a save is asked for", func(_ *World, r *state.Result) bool { return r.Kind == state.KindSaveJobs }},
	{"an allocation stands", func(_ *World, r *state.Result) bool { return r.Kind == state.KindAllocsSuspended }},
	{"leases end", func(_ *World, r *state.Result) bool { return r.Kind == state.KindLeasesEnded && r.Refused == nil }},
}

// waiting is a fault that waits for its moment.
type waiting struct {
	fault Fault
	stop  bool // SIGSTOP in the place of a crash
}

// await has a fault happen at the next moment of its kind.
func (w *World) await(f Fault, stop bool) func() {
	w.awaited = append(w.awaited, waiting{f, stop})
	return nil
}

// meets notes the faults whose moment this entry is.
func (w *World) meets(result *state.Result) {
	w.awaited = slices.DeleteFunc(w.awaited, func(x waiting) bool {
		if !moments[x.fault.B%len(moments)].is(w, result) {
			return false
		}
		w.met = append(w.met, x)
		return true
	})
	w.requeuedNow = false
}

// strike has what was met happen to the leader.
func (w *World) strike() {
	met := w.met
	w.met = nil
	for _, x := range met {
		c := w.log.leader
		if c == nil || !c.runs() || w.now >= w.faultsEnd {
			continue
		}
		w.trace("fault", "%d: it is the moment: %s", x.fault.Number, moments[x.fault.B%len(moments)].name)
		end := w.stopProcessIf(c, x.stop)
		w.after(min(x.fault.For, w.faultsEnd-w.now), func() {
			w.trace("fault", "%d is mended", x.fault.Number)
			end()
			w.log.look()
		})
		w.log.look()
	}
}

func (w *World) stopProcessIf(c *controller, stop bool) func() {
	if stop {
		return w.stopProcess(c)
	}
	return w.crashController(c)
}

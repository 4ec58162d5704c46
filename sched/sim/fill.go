package sim

// This file saves jobs that fill holes, as package sched decides it.

// Saves is what saving and resuming a job costs, in seconds.
type Saves struct {
	SaveS    int64 // until it is saved and gone
	BoundS   int64 // as the plan takes it to be, at most
	RestoreS int64 // until it runs again from its image
}

// usualSaves are those of jobs with some gigabytes of memory on a node: 4,000 MiB took 17
// seconds to save and 10 to restore (docs/benchmarks.md), and the bound is as in
// docs/backfill.md.
var usualSaves = Saves{SaveS: 20, BoundS: 45, RestoreS: 15}

// restoreS is until a job runs again from its image.
func (r *replay) restoreS() int64 {
	if r.policy.Saves.BoundS > 0 {
		return r.policy.Saves.RestoreS
	}
	return r.policy.Lending.RestoreS
}

// save has a job that fills a hole make room. What it does ends at once.
func (r *replay) save(job int32, goneByMS int64) {
	of := r.runs[job]
	of.workedS = of.doneS(r.nowS)
	of.ending, of.goneByMS = true, goneByMS
	r.waitsNow(job)
	r.result.Jobs[job].Saves++
	r.await(job, saved, r.nowS+r.policy.Saves.SaveS)
}

// saved is when it is gone, and waits again with its image.
func (r *replay) saved(job int32) {
	r.owners.savedS[job] += r.runs[job].workedS
	r.waitAgain(job)
}

// wakeAt awaits a pass at a time; 0 = none.
func (r *replay) wakeAt(atMS int64) {
	atS := (atMS + 999) / 1000
	if atMS == 0 || atS <= r.nowS || r.wakeS != 0 && r.wakeS <= atS {
		return
	}
	r.wakeS = atS
	r.events.push(event{atS: atS, kind: wakes})
}

package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Figures sum a replay up.
type Figures struct {
	Jobs         int
	MeanWaitS    float64
	MeanSlowdown float64 // bounded
	// Utilization is the part of all processors that ran jobs, from the first
	// submission to the last end. What ran in vain does not count.
	Utilization float64
}

// Figures are those of the replay.
func (r *Result) Figures() Figures {
	f := Figures{Jobs: len(r.Jobs)}
	var waitS, usedS, lastS int64
	slowdown := 0.0
	for i := range r.Jobs {
		o := &r.Jobs[i]
		waitS += o.WaitS()
		slowdown += o.Slowdown()
		usedS += o.RunS * int64(o.Processors)
		lastS = max(lastS, o.EndS)
	}
	if f.Jobs == 0 {
		return f
	}
	f.MeanWaitS, f.MeanSlowdown = float64(waitS)/float64(f.Jobs), slowdown/float64(f.Jobs)
	f.Utilization = float64(usedS) / (float64(r.Processors) * float64(lastS-r.Jobs[0].SubmitS))
	return f
}

// InUse is the part of all processors that was in use on average from the first
// submission to the last, whatever came of it.
func (r *Result) InUse() float64 {
	if len(r.Jobs) == 0 {
		return 0
	}
	fromS, toS := r.Jobs[0].SubmitS, r.Jobs[len(r.Jobs)-1].SubmitS
	usedPS := 0.0
	for i, use := range r.Use {
		endS := toS
		if i+1 < len(r.Use) {
			endS = min(endS, r.Use[i+1].AtS)
		}
		usedPS += float64(max(endS-use.AtS, 0)) * float64(use.Used)
	}
	return usedPS / (float64(max(toS-fromS, 1)) * float64(r.Processors))
}

// Waits are those of some jobs, in seconds.
type Waits struct {
	Jobs              int
	Mean, Median, P95 float64
}

// WaitsOf is how long the jobs waited that a function picks.
func (r *Result) WaitsOf(of func(*Outcome) bool) Waits {
	var all []int64
	for i := range r.Jobs {
		if of(&r.Jobs[i]) {
			all = append(all, r.Jobs[i].WaitS())
		}
	}
	return waitsOf(all)
}

// waitsOf sums waits up, which it puts in order.
func waitsOf(all []int64) Waits {
	if len(all) == 0 {
		return Waits{}
	}
	slices.Sort(all)
	sum := int64(0)
	for _, wait := range all {
		sum += wait
	}
	// The nearest rank: the least wait that at least that part of the jobs do not exceed.
	at := func(part float64) float64 { return float64(all[int(math.Ceil(part*float64(len(all))))-1]) }
	return Waits{len(all), float64(sum) / float64(len(all)), at(0.5), at(0.95)}
}

// Change is how the waits of some jobs differ under another policy.
type Change struct {
	Name          string
	Before, After Waits
}

// Changes compares two replays of one trace by what a function names of a job: those
// that wait longest more come first.
func Changes(before, after *Result, name func(*Outcome) string) []Change {
	type sides struct{ before, after []int64 }
	waits := map[string]*sides{}
	for i := range before.Jobs {
		key := name(&before.Jobs[i])
		if waits[key] == nil {
			waits[key] = &sides{}
		}
		both := waits[key]
		both.before, both.after = append(both.before, before.Jobs[i].WaitS()), append(both.after, after.Jobs[i].WaitS())
	}
	var all []Change
	for _, key := range slices.Sorted(maps.Keys(waits)) {
		all = append(all, Change{key, waitsOf(waits[key].before), waitsOf(waits[key].after)})
	}
	slices.SortStableFunc(all, func(a, b Change) int {
		return cmp.Compare(b.After.Mean-b.Before.Mean, a.After.Mean-a.Before.Mean)
	})
	return all
}

// ByAccount and ByModel name jobs for Changes.
func ByAccount(o *Outcome) string { return o.Account }

// ByModel is the model of GPU that the job asked for, "any model", or "no GPU".
func ByModel(o *Outcome) string {
	switch {
	case o.Asks == nil || o.Asks.GPUsPerNode == 0:
		return "no GPU"
	case o.Asks.Model == "":
		return "any model"
	}
	return o.Asks.Model
}

// GuestSlowdown is the mean bounded slowdown of the jobs that were guests at some time,
// and their number.
func (r *Result) GuestSlowdown() (mean float64, guests int) {
	for i := range r.Jobs {
		if r.Jobs[i].Guest {
			mean += r.Jobs[i].Slowdown()
			guests++
		}
	}
	return mean / float64(max(guests, 1)), guests
}

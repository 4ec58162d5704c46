// Package profile says what will be free, and when: one timeline for each thing
// that jobs take from, such as a node or a license. A running job, a promised start,
// a reservation and the hours in which an owner has a node are all the same here:
// amounts that are taken from one time to another.
//
// Contract: pure arithmetic on integers; standard library only; imports nothing of
// this project. Times are any integers, mostly Unix milliseconds, and an interval has
// its beginning and not its end. A profile is exact: what Least says is free through
// an interval is free at each of its moments. Amounts may become negative where more
// is taken than there is, as when a node shrinks under its jobs.
//
// Cost: a lane holds a step for each time at which something changes on it, so at
// most two for each interval on that lane, however many lanes there are. Take and
// Give find their place by halving and move what is behind it: O(steps of the lane).
// Least looks at the steps within its interval, and Holes at all steps once. A lane
// on which nothing changes costs one step.
package profile

import (
	"math"
	"slices"
)

// Forever is the end of an interval that has none.
const Forever int64 = math.MaxInt64

// Profile is the timelines. The zero Profile has none.
type Profile struct {
	lanes []lane
}

// lane is one timeline: from times[i] on, until the next, free[i*kinds:(i+1)*kinds] is
// free. The first time is before all others.
type lane struct {
	kinds int
	times []int64
	free  []int64
}

// Interval is from when on, and until when.
type Interval struct{ From, To int64 }

// Add adds a timeline on which these amounts are free for ever, and returns its
// number. Lanes may differ in how many kinds of amount they have.
func (p *Profile) Add(free []int64) int {
	if len(p.lanes) < cap(p.lanes) {
		p.lanes = p.lanes[:len(p.lanes)+1] // with the memory of a lane from before Reset, or none
	} else {
		p.lanes = append(p.lanes, lane{})
	}
	l := &p.lanes[len(p.lanes)-1]
	l.kinds, l.times, l.free = len(free), append(l.times[:0], math.MinInt64), append(l.free[:0], free...)
	return len(p.lanes) - 1
}

// Reset removes all timelines, and keeps their memory for those that are added then.
func (p *Profile) Reset() { p.lanes = p.lanes[:0] }

// Lanes is the number of timelines.
func (p *Profile) Lanes() int { return len(p.lanes) }

// Steps is how many steps a lane has.
func (p *Profile) Steps(lane int) int { return len(p.lanes[lane].times) }

// Take takes amounts for a time.
func (p *Profile) Take(lane int, from, to int64, amounts []int64) {
	p.lanes[lane].change(from, to, amounts, -1)
}

// Give is the opposite of Take.
func (p *Profile) Give(lane int, from, to int64, amounts []int64) {
	p.lanes[lane].change(from, to, amounts, 1)
}

func (l *lane) change(from, to int64, amounts []int64, sign int64) {
	if from >= to {
		return
	}
	first := l.cut(from)
	last := len(l.times)
	if to != Forever {
		last = l.cut(to)
	}
	for i := first; i < last; i++ {
		for kind, amount := range amounts {
			l.free[i*l.kinds+kind] += sign * amount
		}
	}
	if last < len(l.times) {
		l.join(last)
	}
	l.join(first)
}

// at is the step in force at a time.
func (l *lane) at(time int64) int {
	i, exact := slices.BinarySearch(l.times, time)
	if exact {
		return i
	}
	return i - 1
}

// cut makes a step begin at a time and returns it.
func (l *lane) cut(time int64) int {
	i, exact := slices.BinarySearch(l.times, time)
	if exact {
		return i
	}
	l.times = slices.Insert(l.times, i, time)
	// What was free goes on.
	l.free = slices.Insert(l.free, i*l.kinds, l.free[(i-1)*l.kinds:i*l.kinds]...)
	return i
}

// join removes a step that is like the one before it.
func (l *lane) join(i int) {
	if i == 0 || !slices.Equal(l.step(i), l.step(i-1)) {
		return
	}
	l.times = slices.Delete(l.times, i, i+1)
	l.free = slices.Delete(l.free, i*l.kinds, (i+1)*l.kinds)
}

func (l *lane) step(i int) []int64 { return l.free[i*l.kinds : (i+1)*l.kinds] }

// Least puts into least what is free through a whole interval, and returns it.
func (p *Profile) Least(lane int, from, to int64, least []int64) []int64 {
	l := &p.lanes[lane]
	i := l.at(from)
	least = append(least[:0], l.step(i)...)
	for i++; i < len(l.times) && l.times[i] < to; i++ {
		for kind, free := range l.step(i) {
			least[kind] = min(least[kind], free)
		}
	}
	return least
}

// Fits reports whether amounts are free through a whole interval. An amount of 0 fits
// whatever is free.
func (p *Profile) Fits(lane int, from, to int64, amounts []int64) bool {
	l := &p.lanes[lane]
	for i := l.at(from); i < len(l.times) && (l.times[i] < to || l.times[i] <= from); i++ {
		if !covers(l.step(i), amounts) {
			return false
		}
	}
	return true
}

func covers(free, amounts []int64) bool {
	for kind, amount := range amounts {
		if amount > 0 && free[kind] < amount {
			return false
		}
	}
	return true
}

// Holes appends to holes when something that takes amounts for a span may begin, from
// a time on, ascending: at any time within one of the intervals, its end left out.
// A span of Forever fits only where the amounts stay free for ever.
func (p *Profile) Holes(lane int, from, span int64, amounts []int64, holes []Interval) []Interval {
	l := &p.lanes[lane]
	for i := l.at(from); i < len(l.times); {
		if !covers(l.step(i), amounts) {
			i++
			continue
		}
		begin := max(l.times[i], from)
		for i < len(l.times) && covers(l.step(i), amounts) {
			i++
		}
		if i == len(l.times) {
			return append(holes, Interval{begin, Forever})
		}
		// The last beginning is a span before the end.
		if end := l.times[i]; span <= end-begin {
			holes = append(holes, Interval{begin, end - span + 1})
		}
	}
	return holes
}

// Until is until when amounts stay free from a time on: that time itself if they are not
// free then.
func (p *Profile) Until(lane int, from int64, amounts []int64) int64 {
	l := &p.lanes[lane]
	for i := l.at(from); i < len(l.times); i++ {
		if !covers(l.step(i), amounts) {
			return max(l.times[i], from)
		}
	}
	return Forever
}

// Changes appends the times at which something changes on a lane after a time.
func (p *Profile) Changes(lane int, after int64, times []int64) []int64 {
	l := &p.lanes[lane]
	return append(times, l.times[l.at(after)+1:]...)
}

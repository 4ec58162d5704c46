// Package habit learns in which hours of the week a node's owner takes it back, and says
// how likely that is soon.
//
// Contract: arithmetic on whole numbers, without a clock; the standard library only; the
// same answer for the same numbers. A Week is never changed: what learns makes another
// one. It has at most an entry for each hour of the week, and forgets: each week counts an
// eighth less than the one after it. Hours are those of UTC.
package habit

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	hourMS = 3600 * 1000
	// Hours is how many there are in a week.
	Hours = 7 * 24
	// mondayHour is the first hour of a Monday, counted since 1970, which began on a
	// Thursday.
	mondayHour = 4 * 24

	// One is certainty: shares and probabilities are counted in its parts.
	One = 1 << 16
	// memoryWeeks is how many weeks count, about: the newest one counts one in so many.
	memoryWeeks = 8
	// forgotten is a share that is dropped.
	forgotten = One / 64
	// leastTimes is how often an owner has to do something until it is a habit.
	leastTimes = 2
	// unknownSpreadS is for how exact the first moment in an hour is taken.
	unknownSpreadS = 900
)

// Week is what is known of an owner. The zero Week knows nothing.
type Week struct {
	// SinceHour is since when the owner is watched, and ThroughHour until when the
	// entries are brought up to date, in hours since 1970.
	SinceHour   int64   `cbor:"1,keyasint"`
	ThroughHour int64   `cbor:"2,keyasint"`
	LastHour    int64   `cbor:"3,keyasint,omitempty"` // in which the owner last took the node
	Entries     []Entry `cbor:"4,keyasint,omitempty"` // ascending by hour
}

// Entry is what the owner does in one hour of the week.
type Entry struct {
	Hour    uint8  `cbor:"1,keyasint"` // from 0, the first of Monday
	Taken   uint32 `cbor:"2,keyasint"` // share of the weeks in which the node is taken, in parts of One
	Times   uint8  `cbor:"3,keyasint"` // how often that was; no more are counted than there is room for
	AtS     uint16 `cbor:"4,keyasint"` // when in the hour, on average
	SpreadS uint16 `cbor:"5,keyasint"` // how far it is from that, on average
}

func hourOf(ms int64) int64 { return ms / hourMS }

// hourOfWeek is which of the week an hour since 1970 is.
func hourOfWeek(hour int64) int64 { return ((hour-mondayHour)%Hours + Hours) % Hours }

// days are those of a week.
var days = [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// Words are when in the week a moment is: "Mon 09:05 UTC".
func Words(ms int64) string {
	of := hourOfWeek(hourOf(ms))
	return fmt.Sprintf("%s %02d:%02d UTC", days[of/24], of%24, ms%hourMS/60_000)
}

// Watched begins to watch an owner.
func Watched(sinceMS int64) Week {
	return Week{SinceHour: hourOf(sinceMS), ThroughHour: hourOf(sinceMS)}
}

// Lent is the week at a moment until which the node was lent: what the owner did not do
// in the hours since counts.
func (w Week) Lent(atMS int64) Week {
	through := hourOf(atMS) - 1 // the present hour may still bring it
	if through <= w.ThroughHour {
		return w
	}
	var entries []Entry
	for _, e := range w.Entries {
		if e.missed(occurrences(int64(e.Hour), w.ThroughHour, through)); e.Taken >= forgotten {
			entries = append(entries, e)
		}
	}
	w.Entries, w.ThroughHour = entries, through
	return w
}

// occurrences is how often an hour of the week is among the hours after one and up to
// another.
func occurrences(hour, after, through int64) int64 {
	first := after + 1 + ((hour-hourOfWeek(after+1))%Hours+Hours)%Hours
	if first > through {
		return 0
	}
	return (through-first)/Hours + 1
}

// missed notes weeks in which the owner did not take the node in an hour.
func (e *Entry) missed(weeks int64) {
	for range min(weeks, 64*memoryWeeks) {
		e.Taken -= (e.Taken + memoryWeeks - 1) / memoryWeeks
	}
}

// Away is the week at a moment until which the node was not lent: nothing is known of the
// hours since.
func (w Week) Away(atMS int64) Week {
	w.ThroughHour = max(w.ThroughHour, hourOf(atMS))
	return w
}

// Took is the week after the owner has taken the node, which was lent until then. Several
// times in an hour count once.
func (w Week) Took(atMS int64) Week {
	hour, second := hourOf(atMS), uint16(atMS%hourMS/1000)
	if hour <= w.LastHour {
		return w
	}
	w = w.Lent(atMS)
	w.LastHour, w.ThroughHour = hour, max(w.ThroughHour, hour)
	of := uint8(hourOfWeek(hour))
	at, known := slices.BinarySearchFunc(w.Entries, of, func(e Entry, of uint8) int { return cmp.Compare(e.Hour, of) })
	w.Entries = slices.Clone(w.Entries)
	if !known {
		w.Entries = slices.Insert(w.Entries, at, Entry{Hour: of, AtS: second, SpreadS: unknownSpreadS})
	}
	w.Entries[at].took(second, (hour-w.SinceHour)/Hours)
	return w
}

// took notes a week in which the owner took the node. weeks is how many were watched
// before: the fewer there are, the more this one counts.
func (e *Entry) took(second uint16, weeks int64) {
	weight := uint32(min(max(weeks, 0)+2, memoryWeeks))
	e.Taken += (One - e.Taken) / weight
	e.Times += min(1, 255-e.Times)
	off := int(second) - int(e.AtS)
	switch e.Times {
	case 1:
	case 2:
		e.AtS, e.SpreadS = uint16(int(e.AtS)+off/2), uint16(max(off, -off)/2)
	default:
		e.AtS = uint16(int(e.AtS) + off/4)
		e.SpreadS = uint16(int(e.SpreadS) + (max(off, -off)-int(e.SpreadS))/4)
	}
}

// Likely is how likely the owner takes the node within some time from a moment on, if it
// is lent now, in parts of One. What happened once is no habit.
func (w Week) Likely(nowMS, spanMS int64) uint32 {
	if len(w.Entries) == 0 || spanMS <= 0 {
		return 0
	}
	w = w.Lent(nowMS)
	endMS := nowMS + min(spanMS, Hours*hourMS)
	stays := uint64(One)
	for hour := hourOf(nowMS); hour*hourMS < endMS; hour++ {
		of := uint8(hourOfWeek(hour))
		at, known := slices.BinarySearchFunc(w.Entries, of, func(e Entry, of uint8) int { return cmp.Compare(e.Hour, of) })
		if !known || w.Entries[at].Times < leastTimes || hour == w.LastHour {
			continue
		}
		stays = stays * (One - uint64(w.Entries[at].between(nowMS-hour*hourMS, endMS-hour*hourMS))) / One
	}
	return uint32(One - stays)
}

// between is how likely the node is taken between two moments of an hour, in milliseconds
// from its begin, if it was not before the first of them.
func (e *Entry) between(fromMS, toMS int64) uint32 {
	before, until := e.passed(fromMS), e.passed(toMS)
	if until <= before {
		return 0
	}
	taken := uint64(e.Taken)
	left := One - taken*before/One
	return uint32(min(taken*(until-before)/max(left, 1), One))
}

// passed is which share of the moments at which the node is taken in this hour is over at
// one of them: they lie evenly, twice as far around their mean as they do on average.
func (e *Entry) passed(ms int64) uint64 {
	spread := 2 * max(int64(e.SpreadS), 30)
	first, last := max(int64(e.AtS)-spread, 0)*1000, min(int64(e.AtS)+spread, 3600)*1000
	return uint64((min(max(ms, first), last) - first) * One / max(last-first, 1))
}

// PerWeek is how often the owner takes the node in a week, in parts of One, as of a moment
// at which it is lent.
func (w Week) PerWeek(nowMS int64) uint64 {
	sum := uint64(0)
	for _, e := range w.Lent(nowMS).Entries {
		sum += uint64(e.Taken)
	}
	return sum
}

// Valid reports whether a week is as this package makes it.
func (w Week) Valid() bool {
	for i, e := range w.Entries {
		if e.Hour >= Hours || e.Taken > One || e.Taken == 0 || e.Times == 0 || e.AtS >= 3600 || e.SpreadS > 3600 || i > 0 && e.Hour <= w.Entries[i-1].Hour {
			return false
		}
	}
	return w.SinceHour <= w.ThroughHour+1 && w.LastHour <= w.ThroughHour
}

package leader

import (
	"math"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file looks ahead in calendars, for the plan: when reservations that repeat are in
// force, and in which hours nodes are not lent.

// How far is looked ahead. Nothing is planned on a node after that.
const (
	reservedAhead = 8 * 24 * time.Hour
	maxReserved   = 256 // times of one reservation
	unlentAhead   = 2   // times of one node
)

// reservedAt are the times after the present one at which a reservation is in force.
func reservedAt(r *state.Reservation, now time.Time) []state.Span {
	at, lastsMS := *r, r.EndMS-r.StartMS
	var times []state.Span
	for len(times) < maxReserved && time.UnixMilli(at.StartMS).Sub(now) < reservedAhead {
		next, again := nextReservation(&at, now)
		if !again {
			break
		}
		at.StartMS, at.EndMS = next.UnixMilli(), next.UnixMilli()+lastsMS
		times = append(times, state.Span{FromMS: at.StartMS, ToMS: at.EndMS})
	}
	return times
}

// unlent answers for each calendar once.
type unlent struct {
	now   time.Time
	known map[string][]state.Span
}

// of are the next times at which a node is not lent by its hours, from the notice on that
// guests get; the last one is without end. A time that has begun is left out: it is a
// reclaim, unless somebody has ended it.
func (u *unlent) of(node *state.Node) []state.Span {
	if node.Lending == nil || node.Lending.Hours == spec.Always {
		return nil
	}
	key := node.Lending.TimeZone + " " + node.Lending.Hours + " " + time.Duration(node.Lending.NoticeMS).String()
	times, known := u.known[key]
	if !known {
		times = unlentAt(node.Lending, u.now)
		if u.known == nil {
			u.known = map[string][]state.Span{}
		}
		u.known[key] = times
	}
	return times
}

func unlentAt(l *state.Lending, now time.Time) (times []state.Span) {
	week, err := spec.ParseWeek(l.Hours)
	zone, zoneErr := time.LoadLocation(l.TimeZone)
	if err != nil || zoneErr != nil {
		return nil // what this controller cannot read takes nothing back
	}
	for {
		open, changes := week.At(now, zone)
		if changes.IsZero() {
			return times
		}
		if open {
			_, opens := week.At(changes, zone)
			span := state.Span{FromMS: changes.UnixMilli() - int64(l.NoticeMS), ToMS: opens.UnixMilli()}
			if opens.IsZero() || len(times) == unlentAhead {
				span.ToMS = math.MaxInt64
				return append(times, span)
			}
			times = append(times, span)
			changes = opens
		}
		now = changes
	}
}

// repeats is reservedAt, answered once for each reservation.
func repeats(now time.Time) func(*state.Reservation) []state.Span {
	known := map[string][]state.Span{}
	return func(r *state.Reservation) []state.Span {
		if r.Repeat == pb.ReservationRepeat_RESERVATION_REPEAT_NEVER {
			return nil
		}
		times, is := known[r.Name]
		if !is {
			times = reservedAt(r, now)
			known[r.Name] = times
		}
		return times
	}
}

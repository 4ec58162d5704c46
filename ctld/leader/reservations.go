package leader

import (
	"context"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// endReservations ends the reservations whose time is over, and has those that repeat
// begin again. It returns the state after that. It returns false when that could not be
// committed.
func (l *Leader) endReservations(ctx context.Context, view *state.View, now time.Time) (*state.View, bool) {
	ended := view.EndedReservations(now.UnixMilli())
	if len(ended) == 0 {
		return view, true
	}
	command := state.EndReservations{}
	for _, r := range ended {
		end := state.ReservationEnd{Name: r.Name, EndMS: r.EndMS}
		if next, again := nextReservation(r, now); again {
			end.NextStartMS, end.NextEndMS = next.UnixMilli(), next.UnixMilli()+r.EndMS-r.StartMS
		}
		command.Ends = append(command.Ends, end)
	}
	if _, ok := l.propose(ctx, command); !ok {
		return view, false
	}
	l.log.Info("the time of reservations is over", "reservations", len(ended), "first", ended[0].Name)
	return l.cluster.View(), true
}

// nextReservation is when a reservation that repeats begins next, by the calendar of this
// host: the first time that is not over yet. So one that begins at nine does so too when
// the clocks were put forward.
func nextReservation(r *state.Reservation, now time.Time) (time.Time, bool) {
	start, lasts := time.UnixMilli(r.StartMS).In(now.Location()), time.Duration(r.EndMS-r.StartMS)*time.Millisecond
	step := func(n int) time.Time { return start.AddDate(0, 0, n) }
	on := func(time.Weekday) bool { return true }
	switch r.Repeat {
	case pb.ReservationRepeat_RESERVATION_REPEAT_HOURLY:
		step = func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	case pb.ReservationRepeat_RESERVATION_REPEAT_DAILY:
	case pb.ReservationRepeat_RESERVATION_REPEAT_WEEKDAY:
		on = func(day time.Weekday) bool { return !isWeekend(day) }
	case pb.ReservationRepeat_RESERVATION_REPEAT_WEEKEND:
		on = isWeekend
	case pb.ReservationRepeat_RESERVATION_REPEAT_WEEKLY:
		step = func(n int) time.Time { return start.AddDate(0, 0, 7*n) }
	default:
		return time.Time{}, false
	}
	// Where nobody led for long, most of the way is passed at once.
	n := max(1, int(now.Sub(start)/(step(1).Sub(start)+2*time.Hour)))
	for ; ; n++ {
		if next := step(n); on(next.Weekday()) && next.Add(lasts).After(now) && next.UnixMilli() >= r.EndMS {
			return next, true
		}
	}
}

func isWeekend(day time.Weekday) bool { return day == time.Saturday || day == time.Sunday }

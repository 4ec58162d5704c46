package leader

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestNextReservation: a reservation keeps its hour by the host's clock, also across the
// change to summer time, and leaves out what passed while nobody led.
func TestNextReservation(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("needs the time zone database: %v", err)
	}
	at := func(text string) time.Time {
		when, err := time.ParseInLocation("2006-01-02T15:04", text, zone)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		name       string
		repeat     pb.ReservationRepeat
		start, end string
		now, next  string
	}{
		{"once", pb.ReservationRepeat_RESERVATION_REPEAT_NEVER, "2026-03-27T09:00", "2026-03-27T10:00", "2026-03-27T10:00", ""},
		{"hourly", pb.ReservationRepeat_RESERVATION_REPEAT_HOURLY, "2026-03-27T09:00", "2026-03-27T09:10", "2026-03-27T09:10", "2026-03-27T10:00"},
		{"daily over summer time", pb.ReservationRepeat_RESERVATION_REPEAT_DAILY, "2026-03-28T09:00", "2026-03-28T10:00", "2026-03-28T10:00", "2026-03-29T09:00"},
		{"weekday on Friday", pb.ReservationRepeat_RESERVATION_REPEAT_WEEKDAY, "2026-03-27T09:00", "2026-03-27T10:00", "2026-03-27T10:00", "2026-03-30T09:00"},
		{"weekend on Sunday", pb.ReservationRepeat_RESERVATION_REPEAT_WEEKEND, "2026-03-29T09:00", "2026-03-29T10:00", "2026-03-29T10:00", "2026-04-04T09:00"},
		{"weekly over summer time", pb.ReservationRepeat_RESERVATION_REPEAT_WEEKLY, "2026-03-23T09:00", "2026-03-23T10:00", "2026-03-23T10:30", "2026-03-30T09:00"},
		{"daily after a month without a leader", pb.ReservationRepeat_RESERVATION_REPEAT_DAILY, "2026-03-01T09:00", "2026-03-01T10:00", "2026-04-01T12:00", "2026-04-02T09:00"},
		{"daily while the time that was missed lasts", pb.ReservationRepeat_RESERVATION_REPEAT_DAILY, "2026-03-01T09:00", "2026-03-01T10:00", "2026-04-01T09:30", "2026-04-01T09:00"},
		{"hourly after a year", pb.ReservationRepeat_RESERVATION_REPEAT_HOURLY, "2025-03-01T09:00", "2025-03-01T09:10", "2026-03-01T09:15", "2026-03-01T10:00"},
		{"a whole day each day", pb.ReservationRepeat_RESERVATION_REPEAT_DAILY, "2026-03-01T09:00", "2026-03-02T09:00", "2026-03-02T09:00", "2026-03-02T09:00"},
	} {
		r := &state.Reservation{StartMS: at(c.start).UnixMilli(), EndMS: at(c.end).UnixMilli(), Repeat: c.repeat}
		next, again := nextReservation(r, at(c.now))
		switch {
		case again != (c.next != ""):
			t.Errorf("%s: it begins again: %v", c.name, again)
		case again && !next.Equal(at(c.next)):
			t.Errorf("%s: it begins at %v, and should at %s", c.name, next, c.next)
		}
	}
}

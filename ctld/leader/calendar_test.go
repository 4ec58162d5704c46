package leader

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestCalendarAhead: what repeats is known for a week, and where clocks are set the hours
// stay those on the wall.
func TestCalendarAhead(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour int) time.Time { return time.Date(2026, 3, day, hour, 0, 0, 0, zone) }
	daily := &state.Reservation{Name: "daily", StartMS: at(27, 9).UnixMilli(), EndMS: at(27, 10).UnixMilli(), Repeat: pb.ReservationRepeat_RESERVATION_REPEAT_DAILY}
	times := reservedAt(daily, at(27, 8))
	for i, span := range times {
		if begin := at(28+i, 9).UnixMilli(); span.FromMS != begin || span.ToMS != begin+3600_000 {
			t.Errorf("time %d is %+v, and should begin at %d", i, span, begin)
		}
	}
	if len(times) < 7 || len(times) > 9 {
		t.Errorf("%d times of a week are known", len(times))
	}
	const notice = 60_000
	l := state.Lending{Hours: "Mon-Sun 18:00-08:00", TimeZone: "Europe/Berlin", NoticeMS: notice}
	want := []state.Span{
		{FromMS: at(28, 8).UnixMilli() - notice, ToMS: at(28, 18).UnixMilli()},
		{FromMS: at(29, 8).UnixMilli() - notice, ToMS: at(29, 18).UnixMilli()},
		{FromMS: at(30, 8).UnixMilli() - notice, ToMS: math.MaxInt64},
	}
	for _, hour := range []int{12, 20} { // by day and by night
		if got := unlentAt(&l, at(27, hour)); !slices.Equal(got, want) {
			t.Errorf("at %d:00 the node is not lent in %v, and should be in %v", hour, got, want)
		}
	}
	for _, hours := range []string{"always", "never"} {
		if got := unlentAt(&state.Lending{Hours: hours}, at(27, 12)); got != nil {
			t.Errorf("a node that is lent %s changes in %v", hours, got)
		}
	}
}

package show

import (
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestFollowHours: whoever sets hours sees at once whether the node is lent by them, and not
// what the former ones made of it; what somebody holds stays held.
func TestFollowHours(t *testing.T) {
	friday := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	reclaimed := func(by pb.ReclaimTrigger) *pb.Reclaim {
		return &pb.Reclaim{UntilMs: 7, Holds: []*pb.ReclaimHold{{Trigger: by}}}
	}
	calendar, command := pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS, pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND
	for name, c := range map[string]struct {
		hours   string
		reclaim *pb.Reclaim
		lent    string
		until   time.Time
	}{
		"lent from now on":       {"Fri-Sun", reclaimed(calendar), "yes", time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		"not before the evening": {"22:00-06:00", nil, "no", time.Date(2026, 11, 27, 22, 0, 0, 0, time.UTC)},
		"later than before":      {"Sun 01:30-03:30", reclaimed(calendar), "no", time.Date(2026, 11, 29, 1, 30, 0, 0, time.UTC)},
		"never":                  {"never", nil, "no", time.Time{}},
		"always":                 {"always", reclaimed(calendar), "yes", time.Time{}},
		"held by its owner":      {"always", reclaimed(command), "no", time.UnixMilli(7)},
	} {
		terms := DefaultLending()
		terms.Hours = c.hours
		node := &pb.Node{Name: "n1", Lending: terms, Reclaim: c.reclaim}
		FollowHours(node, friday)
		lent, untilMS := lentNow(node, terms, friday)
		if wantMS := c.until.UnixMilli(); lent != c.lent || !c.until.IsZero() && untilMS != wantMS || c.until.IsZero() && untilMS != 0 {
			t.Errorf("%s: %s until %v", name, lent, time.UnixMilli(untilMS).UTC())
		}
	}
}

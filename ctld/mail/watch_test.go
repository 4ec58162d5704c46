package mail

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Parts of a time limit, also of a job that was stopped for a while.
func TestElapsed(t *testing.T) {
	const minute = 60_000
	for _, c := range []struct {
		limitS uint32
		run    *state.Run
		nowMS  int64
		want   spec.MailTypes
	}{
		{600, nil, 100 * minute, 0},
		{0, &state.Run{}, 100 * minute, 0},
		{spec.Unlimited, &state.Run{}, 100 * minute, 0},
		{600, &state.Run{StartMS: minute}, 5 * minute, 0},
		{600, &state.Run{StartMS: minute}, 6 * minute, spec.MailTimeLimit50},
		{600, &state.Run{}, 9 * minute, spec.MailTimeLimit50 | spec.MailTimeLimit80 | spec.MailTimeLimit90},
		{600, &state.Run{}, 10 * minute, spec.MailTimeLimits},
		{600, &state.Run{RanMS: 4 * minute, TurnMS: 20 * minute}, 21 * minute, spec.MailTimeLimit50},
		{600, &state.Run{RanMS: 4 * minute, TurnMS: 20 * minute, Suspension: &state.Suspension{}}, 90 * minute, 0},
	} {
		job := &state.Job{Spec: &state.Spec{TimeLimitS: c.limitS}, Run: c.run}
		if got := elapsed(job, c.nowMS); got != c.want {
			t.Errorf("%+v at %d: %b, want %b", c.run, c.nowMS, got, c.want)
		}
	}
	if furthest(spec.MailTimeLimit50|spec.MailTimeLimit90) != spec.MailTimeLimit90 {
		t.Error("of several that are due, the last one is told")
	}
}

// A user has so many mails in an hour, whatever others have.
func TestAllowance(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := New(nil, "here", nil)
	m.clock = func() time.Time { return now }
	count := func(user string) (allowed int) {
		for range 2 * perHour {
			if m.allows(user) {
				allowed++
			}
		}
		return allowed
	}
	if ada, eve := count("ada"), count("eve"); ada != perHour || eve != perHour {
		t.Errorf("%d and %d in an hour", ada, eve)
	}
	if now = now.Add(time.Hour); count("ada") != perHour {
		t.Error("none in the next hour")
	}
}

func TestClockAndPlain(t *testing.T) {
	for ms, want := range map[int64]string{-5: "00:00:00", 59_999: "00:00:59", 90_061_000: "1-01:01:01"} {
		if got := clock(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
	if got := plain("a\r\nBcc: b\xff\u2028"); got != "a  Bcc: b? " {
		t.Errorf("%q", got)
	}
}

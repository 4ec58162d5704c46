package leader

import (
	"context"
	"log/slog"
	"testing"
	"time"
	_ "time/tzdata" // the test has its own

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// TestPeriodAfter: when periods begin (slurm.conf(5), PriorityUsageResetPeriod),
// by the calendar of the leader's host; a moment at which one begins is in it.
func TestPeriodAfter(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct {
		period      policy.ResetPeriod
		since, want string
	}{
		{policy.ResetDaily, "2026-03-02 10:00:00 +0100", "2026-03-03 00:00:00 +0100"},
		{policy.ResetDaily, "2026-03-02 00:00:00 +0100", "2026-03-03 00:00:00 +0100"},
		{policy.ResetDaily, "2026-12-31 23:59:59 +0100", "2027-01-01 00:00:00 +0100"},
		{policy.ResetDaily, "2026-03-29 01:00:00 +0100", "2026-03-30 00:00:00 +0200"},  // a day of 23 hours
		{policy.ResetWeekly, "2026-03-02 10:00:00 +0100", "2026-03-08 00:00:00 +0100"}, // Monday to Sunday
		{policy.ResetWeekly, "2026-03-08 00:00:00 +0100", "2026-03-15 00:00:00 +0100"},
		{policy.ResetWeekly, "2026-03-28 23:00:00 +0100", "2026-03-29 00:00:00 +0100"},
		{policy.ResetMonthly, "2026-01-31 10:00:00 +0100", "2026-02-01 00:00:00 +0100"},
		{policy.ResetMonthly, "2026-12-01 00:00:00 +0100", "2027-01-01 00:00:00 +0100"},
		{policy.ResetQuarterly, "2026-01-01 00:00:00 +0100", "2026-04-01 00:00:00 +0200"},
		{policy.ResetQuarterly, "2026-03-31 23:59:59 +0200", "2026-04-01 00:00:00 +0200"},
		{policy.ResetQuarterly, "2026-12-31 10:00:00 +0100", "2027-01-01 00:00:00 +0100"},
		{policy.ResetYearly, "2026-01-01 00:00:00 +0100", "2027-01-01 00:00:00 +0100"},
	} {
		since, err := time.Parse(layout, c.since)
		if err != nil {
			t.Fatal(err)
		}
		if got, is := periodAfter(c.period, since.In(berlin)); !is || got.Format(layout) != c.want {
			t.Errorf("%v after %s: %s, %v, want %s", c.period, c.since, got.Format(layout), is, c.want)
		}
	}
	for _, period := range []policy.ResetPeriod{policy.ResetNever, policy.ResetNow} {
		if due, is := periodAfter(period, time.Now()); is {
			t.Errorf("%v is due at %v", period, due)
		}
	}
}

// clocked is a state whose clock the test sets.
type clocked struct {
	state *state.State
	index uint64
	now   time.Time
}

func (c *clocked) View() *state.View { return c.state.View() }

func (c *clocked) Propose(_ context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	entry, err := state.Encode(command, id, c.now.UnixMilli())
	if err != nil {
		return state.Result{}, err
	}
	c.index++
	return c.state.Apply(c.index, entry)
}

// TestUsageIsReset: once when a period begins, and once for all that began while
// nobody led; by the log's clock, too.
func TestUsageIsReset(t *testing.T) {
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	c := &clocked{state: state.New(), now: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)}
	l := New(c, nil, log)
	site := policy.Message(c.View().Policy())
	site.Priority.UsageResetPeriod = "DAILY"
	if wait := l.untilReset(c.now); wait != resetEvery {
		t.Errorf("without a period the loop waits %v", wait)
	}
	for _, command := range []state.Command{state.ApplyPolicy{Policy: *policy.FromMessage(site)}} {
		if result, err := c.Propose(ctx, command, state.RequestID{}); err != nil || result.Refused != nil {
			t.Fatal(err, result.Refused)
		}
	}
	forgotten := func() time.Time {
		_, since := c.View().UsageReset()
		return time.UnixMilli(since).UTC()
	}
	midnight := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)
	if wait := l.untilReset(midnight.Add(-2 * time.Second)); wait != 2*time.Second {
		t.Errorf("two seconds before midnight the loop waits %v", wait)
	}
	before := c.index
	if l.ResetUsage(ctx, midnight.Add(-time.Millisecond)); c.index != before {
		t.Error("it is done before midnight")
	}
	if l.ResetUsage(ctx, midnight); forgotten() != time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC) {
		t.Error("it is done by a leader whose clock alone is ahead of the log's")
	}
	for _, at := range []time.Time{midnight.Add(20 * time.Millisecond), midnight.AddDate(0, 0, 3).Add(8 * time.Hour)} {
		c.now = at
		if l.ResetUsage(ctx, c.now); !forgotten().Equal(at) {
			t.Errorf("at %v it is not done: %v", at, forgotten())
		}
		before = c.index
		if l.ResetUsage(ctx, c.now.Add(time.Hour)); c.index != before {
			t.Errorf("an hour after %v it is done again", at)
		}
	}
}

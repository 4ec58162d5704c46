package habit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// monday is the first moment of a Monday.
var monday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC).UnixMilli()

// at is a moment of a week: day 0 is Monday.
func at(week, day, hour, second int) int64 {
	return monday + int64(((week*7+day)*24+hour)*3600+second)*1000
}

// nine is a week of an owner who takes the node on Mondays, shortly after nine.
func nine(weeks int) Week {
	w := Watched(at(0, 0, 0, 0))
	for week := range weeks {
		w = w.Took(at(week, 0, 9, 30)).Away(at(week, 0, 17, 0))
	}
	return w
}

func TestLikely(t *testing.T) {
	for name, row := range map[string]struct {
		week          Week
		nowMS, spanMS int64
		least, most   float64
	}{
		"nothing is known":                    {Week{}, at(1, 0, 9, 0), 3600_000, 0, 0},
		"once is no habit":                    {nine(1), at(1, 0, 9, 0), 3600_000, 0, 0},
		"six weeks at nine":                   {nine(6), at(6, 0, 9, 0), 3600_000, 0.7, 0.95},
		"the last minutes before":             {nine(6), at(6, 0, 8, 3500), 1800_000, 0.5, 0.95},
		"an hour before":                      {nine(6), at(6, 0, 8, 0), 1800_000, 0, 0},
		"at ten":                              {nine(6), at(6, 0, 10, 0), 3600_000, 0, 0},
		"on Tuesday":                          {nine(6), at(6, 1, 9, 0), 3600_000, 0, 0},
		"this week it was taken already":      {nine(6), at(5, 0, 9, 100), 60_000, 0, 0},
		"half of the hour is over, and it is": {nine(6), at(6, 0, 9, 3000), 600_000, 0, 0.3},
		"the whole week":                      {nine(6), at(5, 0, 17, 0), 7 * 24 * 3600_000, 0.7, 0.95},
		"no time":                             {nine(6), at(6, 0, 9, 0), 0, 0, 0},
		"a year after the last time":          {nine(6), at(58, 0, 9, 0), 3600_000, 0, 0},
	} {
		got := float64(row.week.Likely(row.nowMS, row.spanMS)) / One
		if got < row.least || got > row.most {
			t.Errorf("%s: %.3f, want %.2f to %.2f", name, got, row.least, row.most)
		}
	}
}

// TestForgets: what the owner no longer does counts less each week, and is dropped.
func TestForgets(t *testing.T) {
	w, last := nine(8), uint32(One)
	for week := 8; week < 60; week++ {
		now := w.Likely(at(week, 0, 9, 0), 3600_000)
		if now > last || now == last && now != 0 {
			t.Fatalf("after week %d it is %d, and was %d", week, now, last)
		}
		last = now
	}
	if last != 0 || len(w.Lent(at(60, 0, 0, 0)).Entries) != 0 {
		t.Errorf("after a year it is still known: %d", last)
	}
	// Weeks in which the node was not lent say nothing.
	if away := w.Away(at(58, 0, 0, 0)); away.Likely(at(58, 0, 9, 0), 3600_000) < One/2 {
		t.Error("a year in which nothing was seen made it forget")
	}
}

// TestLentInSteps: it does not matter how often a week is brought up to date.
func TestLentInSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w := Watched(at(0, 0, 0, 0))
		now := int64(monday)
		for range random.IntN(60) {
			now += random.Int64N(9 * 24 * 3600_000)
			w = w.Took(now)
		}
		end := now + random.Int64N(40*7*24*3600_000)
		steps := w
		for moment := now; moment < end; moment += random.Int64N(24 * 3600_000) {
			steps = steps.Lent(moment)
		}
		whole, steps := w.Lent(end), steps.Lent(end)
		if len(whole.Entries) != len(steps.Entries) {
			t.Fatalf("at once %v, in steps %v", whole, steps)
		}
		for i := range whole.Entries {
			if whole.Entries[i] != steps.Entries[i] {
				t.Fatalf("at once %v, in steps %v", whole, steps)
			}
		}
		if !whole.Valid() || whole.PerWeek(end) > Hours*One {
			t.Fatalf("not valid: %+v", whole)
		}
	}
}

// TestOccurrences against counting.
func TestOccurrences(t *testing.T) {
	for after := int64(490_000); after < 490_000+2*Hours; after += 13 {
		for through := after; through < after+400; through += 7 {
			for hour := int64(0); hour < Hours; hour += 11 {
				want := int64(0)
				for h := after + 1; h <= through; h++ {
					if hourOfWeek(h) == hour {
						want++
					}
				}
				if got := occurrences(hour, after, through); got != want {
					t.Fatalf("hour %d in (%d, %d]: %d, want %d", hour, after, through, got, want)
				}
			}
		}
	}
}

// TestLikelyGrows: more time makes it no less likely, and it is never more than certain.
func TestLikelyGrows(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		w, now := Watched(monday), int64(monday)
		for range random.IntN(100) {
			now += random.Int64N(3 * 24 * 3600_000)
			w = w.Took(now)
		}
		now += random.Int64N(7 * 24 * 3600_000)
		last := uint32(0)
		for span := int64(1000); span < 9*24*3600_000; span *= 3 {
			got := w.Likely(now, span)
			if got < last || got > One {
				t.Fatalf("%d ms: %d after %d, of %+v", span, got, last, w)
			}
			last = got
		}
	}
}

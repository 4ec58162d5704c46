package spec

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // a machine may have no zones of its own
)

func TestWeekAt(t *testing.T) {
	for _, row := range []struct {
		hours, zone, at string
		open            bool
		changes         string // "" = never
	}{
		{"Mon-Fri 18:00-08:00; Sat-Sun", "UTC", "2026-11-23T17:59:59Z", false, "2026-11-23T18:00:00Z"},
		{"Mon-Fri 18:00-08:00; Sat-Sun", "UTC", "2026-11-23T18:00:00Z", true, "2026-11-24T08:00:00Z"},
		{"Mon-Fri 18:00-08:00; Sat-Sun", "UTC", "2026-11-27T19:00:00Z", true, "2026-11-30T00:00:00Z"}, // the night reaches the weekend
		{"Mon-Fri 18:00-08:00; Sat-Sun", "UTC", "2026-11-30T00:00:00Z", false, "2026-11-30T18:00:00Z"},
		{"Fri-Mon 22:00-24:00", "UTC", "2026-11-24T00:00:00Z", false, "2026-11-27T22:00:00Z"},
		{"22:00-06:00", "UTC", "2026-11-23T05:59:00Z", true, "2026-11-23T06:00:00Z"},
		{"sunday 22:00-06:00", "UTC", "2026-11-23T05:59:00Z", true, "2026-11-23T06:00:00Z"}, // over the end of the week
		{"Mon,Wed 8:00-12:00, 13:00-17:00", "UTC", "2026-11-23T12:30:00Z", false, "2026-11-23T13:00:00Z"},
		{"Mon 08:00-12:00; Mon 10:00-14:00", "UTC", "2026-11-23T11:00:00Z", true, "2026-11-23T14:00:00Z"}, // overlap
		{"Mon-Sun", "UTC", "2026-11-23T11:00:00Z", true, ""},
		{"00:00-12:00,12:00-24:00", "UTC", "2026-11-23T11:00:00Z", true, ""},
		{"always", "UTC", "2026-11-23T11:00:00Z", true, ""},
		{"Never", "UTC", "2026-11-23T11:00:00Z", false, ""},
		// Europe/Berlin: +1, in summer +2; forward on 2026-03-29 at 02:00, back on 2026-10-25 at 03:00.
		{"22:00-06:00", "Europe/Berlin", "2026-03-28T23:00:00Z", true, "2026-03-29T04:00:00Z"},
		{"22:00-06:00", "Europe/Berlin", "2026-10-24T22:00:00Z", true, "2026-10-25T05:00:00Z"},
		{"00:00-02:30", "Europe/Berlin", "2026-03-29T00:30:00Z", true, "2026-03-29T01:00:00Z"},      // ends in the hour that is not there
		{"02:30-05:00", "Europe/Berlin", "2026-03-29T00:30:00Z", false, "2026-03-29T01:00:00Z"},     // begins in it
		{"00:00-02:30", "Europe/Berlin", "2026-10-25T00:00:00Z", true, "2026-10-25T00:30:00Z"},      // ends the first time
		{"00:00-02:30", "Europe/Berlin", "2026-10-25T01:10:00Z", false, "2026-10-25T23:00:00Z"},     // and stays so
		{"02:30-05:00", "Europe/Berlin", "2026-10-25T00:45:00Z", false, "2026-10-25T01:30:00Z"},     // begins the second time
		{"Sun 02:10-02:20", "Europe/Berlin", "2026-10-25T00:15:00Z", false, "2026-11-01T01:10:00Z"}, // left out
		{"Sun 02:10-02:20", "Europe/Berlin", "2026-03-29T00:59:00Z", false, "2026-04-05T00:10:00Z"}, // likewise
		{"Mon 00:00-00:30", "Asia/Kolkata", "2026-11-22T18:45:00Z", true, "2026-11-22T19:00:00Z"},   // half hours
		{"Mon-Fri 18:00-08:00", "America/New_York", "2026-11-23T12:59:00Z", false, "2026-11-23T23:00:00Z"},
	} {
		week, err := ParseWeek(row.hours)
		if err != nil {
			t.Errorf("%s: %v", row.hours, err)
			continue
		}
		zone, err := time.LoadLocation(row.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, row.at)
		open, next := week.At(at, zone)
		changes := ""
		if !next.IsZero() {
			changes = next.UTC().Format(time.RFC3339)
		}
		if open != row.open || changes != row.changes {
			t.Errorf("%s in %s at %s: open %v until %s, want %v until %s", row.hours, row.zone, row.at, open, changes, row.open, row.changes)
		}
	}
}

func TestWeekRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                             "nothing between",
		"Mon-Fri;":                     "nothing between",
		"Mon 18-08":                    `"18" is no time of the day`,
		"Mon 18:00":                    "has no end",
		"Mon 18:00-25:00":              `"25:00" is no time`,
		"Mon 08:00-08:00":              "a whole day is 00:00-24:00",
		"Mon 24:00-08:00":              "is empty",
		"Mo 08:00-09:00":               `"mo" is no day`,
		"Mon-Xyz":                      `"xyz" is no day`,
		"Mon 08:60-09:00":              "no time",
		"Mon 8:0-09:00":                "no time",
		strings.Repeat("Mon;", 200):    "longer than",
		strings.Repeat("Mon-Sun;", 40): "more than 128",
		"Mon 08:00-09:00-10:00":        "no time",
		"Mon -08:00":                   "no time",
		"Mon 08:00-09:00,":             "no time",
		"Mon\x00 08:00-09:00":          "is no day",
	} {
		if _, err := ParseWeek(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

// FuzzWeek: whatever is read, the answer at a moment holds until the change that it names,
// and not longer.
func FuzzWeek(f *testing.F) {
	for _, text := range []string{"Mon-Fri 18:00-08:00; Sat-Sun", "always", "never", "Fri-Mon 22:00-24:00,1:00-2:30", "02:10-02:20"} {
		f.Add(text, int64(1_792_890_000), uint8(0))
	}
	f.Add("Sat 01:00-03:00; Sun 02:30-02:00", int64(1_774_746_000), uint8(1))
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			f.Fatal(err)
		}
		zones = append(zones, zone)
	}
	f.Fuzz(func(t *testing.T, text string, second int64, zone uint8) {
		week, err := ParseWeek(text)
		if err != nil {
			return
		}
		at, place := time.Unix(second%(1<<33), 0), zones[int(zone)%len(zones)]
		open, changes := week.At(at, place)
		if changes.IsZero() {
			if !week.IsAlways() && !week.IsNever() {
				t.Fatalf("%q has a gap, and never changes", text)
			}
			return
		}
		if !changes.After(at) || changes.Sub(at) > 9*24*time.Hour {
			t.Fatalf("%q at %v changes at %v", text, at, changes)
		}
		for _, between := range []time.Time{at.Add(changes.Sub(at) / 2), changes.Add(-time.Second)} {
			if same, then := week.At(between, place); between.After(at) && (same != open || !then.Equal(changes)) {
				t.Fatalf("%q at %v is %v until %v, and at %v %v until %v", text, at, open, changes, between, same, then)
			}
		}
		if other, _ := week.At(changes, place); other == open {
			t.Fatalf("%q at %v is %v until %v, and then too", text, at, open, changes)
		}
	})
}

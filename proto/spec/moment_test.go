package spec

import (
	"strings"
	"testing"
	"time"
)

// TestParseMoment: the forms of sbatch(1), --begin and --deadline, on a
// Wednesday at noon in a zone of its own.
func TestParseMoment(t *testing.T) {
	zone := time.FixedZone("test", 2*3600)
	now := time.Date(2030, 5, 15, 12, 0, 0, 0, zone)
	for in, want := range map[string]string{
		"now":                 "2030-05-15T12:00:00",
		"now+1hour":           "2030-05-15T13:00:00",
		"now+60":              "2030-05-15T12:01:00",
		"now + 90 minutes":    "2030-05-15T13:30:00",
		"now+2d":              "2030-05-17T12:00:00",
		"NOW+1week":           "2030-05-22T12:00:00",
		"now-1h":              "2030-05-15T11:00:00",
		"16:00":               "2030-05-15T16:00:00",
		"16:00:30":            "2030-05-15T16:00:30",
		"12:00":               "2030-05-15T12:00:00",
		"11:59":               "2030-05-16T11:59:00",
		"4:30PM":              "2030-05-15T16:30:00",
		"4pm":                 "2030-05-15T16:00:00",
		"9 am":                "2030-05-16T09:00:00",
		"12:15AM":             "2030-05-16T00:15:00",
		"12:15 PM":            "2030-05-15T12:15:00",
		"midnight":            "2030-05-16T00:00:00",
		"noon":                "2030-05-15T12:00:00",
		"elevenses":           "2030-05-16T11:00:00",
		"fika":                "2030-05-15T15:00:00",
		"teatime":             "2030-05-15T16:00:00",
		"today":               "2030-05-15T00:00:00",
		"tomorrow":            "2030-05-16T00:00:00",
		"tomorrow 16:00":      "2030-05-16T16:00:00",
		"teatime,tomorrow":    "2030-05-16T16:00:00",
		"2010-01-20T12:34:00": "2010-01-20T12:34:00",
		"2031-01-20":          "2031-01-20T00:00:00",
		"2031-01-20 3:04":     "2031-01-20T03:04:00",
		"0516":                "2030-05-16T00:00:00",
		"0514":                "2031-05-14T00:00:00",
		"0515 12:01":          "2030-05-15T12:01:00",
		"051532":              "2032-05-15T00:00:00",
		"05/16":               "2030-05-16T00:00:00",
		"5/16/33":             "2033-05-16T00:00:00",
		"05/16/2033":          "2033-05-16T00:00:00",
		"05.16.33":            "2033-05-16T00:00:00",
		"05/16/30-14:00":      "2030-05-16T14:00:00",
		"05/16-2:00PM":        "2030-05-16T14:00:00",
		"02/29/32":            "2032-02-29T00:00:00",
	} {
		got, err := ParseMoment(in, now)
		if err != nil || got.Format("2006-01-02T15:04:05") != want || got.Location() != zone {
			t.Errorf("%q is %v, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " ", "soon", "nowhere", "now+", "now+1fortnight", "now+99999999999", "now*2", "25:00", "16:60", "16", "13pm", "0:30am", "16:00 17:00",
		"today tomorrow", "2030-13-01", "2030-02-30", "02/29/30", "1331", "0532", "1/2/3/4", "2030-01", "noon am", "99999-01-01", "1:2:3:4", "16:00T", "1969-12-31",
		strings.Repeat("1", 100),
	} {
		if got, err := ParseMoment(in, now); err == nil || !strings.Contains(err.Error(), "invalid time") {
			t.Errorf("%q is %v, %v", in, got, err)
		}
	}
}

func FuzzMoment(f *testing.F) {
	for _, seed := range []string{"now+1hour", "16:00", "4pm", "noon tomorrow", "2010-01-20T12:34:00", "0120", "01/20/10-12:34:56", "now-1w", "t", "-"} {
		f.Add(seed, int64(1_900_000_000))
	}
	f.Add(long, int64(0))
	f.Fuzz(func(t *testing.T, in string, seconds int64) {
		now := time.Unix(seconds%(1<<37), 0).UTC()
		got, err := ParseMoment(in, now)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if got.Location() != now.Location() {
			t.Fatalf("%q in another zone", in)
		}
		if now.Year() < firstYear || now.Year() >= lastYear || got.Year() < firstYear || got.Year() > lastYear {
			return
		}
		back, err := ParseMoment(got.Format("2006-01-02T15:04:05"), now)
		if err != nil || !back.Equal(got.Truncate(time.Second)) {
			t.Fatalf("%q is %v, which reads %v, %v", in, got, back, err)
		}
	})
}

package show

import (
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func TestStamp(t *testing.T) {
	at := time.Date(2026, 3, 7, 4, 5, 6, 0, time.UTC)
	for format, want := range map[string]string{
		"": "2026-03-07T04:05:06", "standard": "2026-03-07T04:05:06", "%s": "1772856306", "%a %T": "Sat 04:05:06",
		"%F %R %%%q%": "2026-03-07 04:05 %%q%", "relative": "Sat 04:05",
	} {
		v := NewView(func(name string) string {
			if name == "SLURM_TIME_FORMAT" {
				return format
			}
			return ""
		}, clienttest.StubNow)
		if got := v.Stamp(at.UnixMilli(), ""); got != want {
			t.Errorf("%q: %q, want %q", format, got, want)
		}
	}
}

func TestRelative(t *testing.T) {
	v := NewView(func(string) string { return "" }, clienttest.StubNow)
	for after, want := range map[time.Duration]string{
		0: "12:00:00", 24 * time.Hour: "Tomorr 12:00", -13 * time.Hour: "Ystday 23:00",
		-20 * 24 * time.Hour: "13 Feb 12:00", -400 * 24 * time.Hour: "29 Jan 2025",
	} {
		if got := v.relative(clienttest.StubNow.Add(after)); got != want {
			t.Errorf("%v: %q, want %q", after, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	v := &View{maxExpression: 10}
	for text, want := range map[string]string{"1,2,3": "1,2,3", "1,2,3,4,5,6": "1,2,3,4,5,...", "12345678901": "1234567890..."} {
		if got := v.clip(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if v.maxExpression = 0; v.clip("12345678901") != "12345678901" {
		t.Error("0 is no limit")
	}
}

func TestClockText(t *testing.T) {
	for seconds, want := range map[uint32]string{0: "00:00:00", 65: "00:01:05", 93784: "1-02:03:04", spec.Unlimited: "UNLIMITED"} {
		if got := clockText(seconds); got != want {
			t.Errorf("%d: %q, want %q", seconds, got, want)
		}
	}
}

func TestNaturalOrder(t *testing.T) {
	for _, pair := range [][2]string{{"n2", "n10"}, {"n9", "n10"}, {"a10", "b2"}, {"n1a2", "n1a10"}, {"n", "n1"}} {
		if NaturalKey(pair[0]) >= NaturalKey(pair[1]) {
			t.Errorf("%s does not come before %s", pair[0], pair[1])
		}
	}
}

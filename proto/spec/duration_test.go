package spec

import (
	"strings"
	"testing"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]uint32{
		"60s": 60, "1s": 1, "5m": 300, "4h": 14400, "2d": 172800, "1h30m": 5400, "1d2h3m4s": 93784, " 5M ": 300, "90m": 5400, "007s": 7,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "60", "s", "1.5h", "-5m", "+5m", "5 m", "5mm", "5m5m", "30m1h", "0s", "0h0m", "5w", "5ms", "1h30", "49711d", "4294967295s",
		"4294967296s", "99999999999999999999s", strings.Repeat("1", 70) + "s", "5\x00m", "5\u00b5",
	} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %d", text, got)
		} else if !strings.Contains(err.Error(), "60s") || len(err.Error()) > 256 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDurationsAreReadAsTheyAreWritten(t *testing.T) {
	for _, seconds := range []uint32{1, 59, 60, 61, 90, 3599, 3600, 86400, 90061, Unlimited - 1} {
		if got, err := ParseDuration(FormatDuration(seconds)); err != nil || got != seconds {
			t.Errorf("%d is written %s, and read as %d: %v", seconds, FormatDuration(seconds), got, err)
		}
	}
	if got := FormatDuration(90); got != "1m30s" {
		t.Errorf("90 s is written %s", got)
	}
}

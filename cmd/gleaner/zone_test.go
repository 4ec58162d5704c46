package main

import (
	"testing"
	"time"
)

// TestRuledZone: a TZ of rules is followed, and one that is a name or nonsense is left to Go.
func TestRuledZone(t *testing.T) {
	for rules, want := range map[string][2]string{ // at noon UTC in winter and in summer
		"EST5EDT,M3.2.0,M11.1.0": {"07:00 EST", "08:00 EDT"}, "CET-1CEST,M3.5.0,M10.5.0/3": {"13:00 CET", "14:00 CEST"},
		"JST-9": {"21:00 JST", "21:00 JST"}, "<+0330>-3:30": {"15:30 +0330", "15:30 +0330"},
	} {
		zone := ruledZone(rules)
		if zone == nil {
			t.Errorf("%s is not read", rules)
			continue
		}
		for i, month := range []time.Month{time.January, time.July} {
			if got := time.Date(2030, month, 15, 12, 0, 0, 0, time.UTC).In(zone).Format("15:04 MST"); got != want[i] {
				t.Errorf("%s in %v: %s, want %s", rules, month, got, want[i])
			}
		}
	}
	for _, name := range []string{"", "UTC", "Europe/Berlin", "EST5EDT", "Nosuch", "../../etc/passwd1", "5", "x\x1b[31m", "A1\nB"} {
		if zone := ruledZone(name); zone != nil {
			t.Errorf("%q is taken for rules: %v", name, time.Now().In(zone))
		}
	}
}

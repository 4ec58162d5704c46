package control

import (
	"fmt"
	"time"
)

// contactText is a time in milliseconds as humans read it; -1 = never.
func contactText(ms int64) string {
	if ms < 0 {
		return "never"
	}
	return shortTime(time.Duration(ms) * time.Millisecond)
}

// shortTime is a duration in at most two units.
func shortTime(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + shortTime(-d)
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ParseTime reads a time limit as sbatch's --time does: "minutes",
// "minutes:seconds", "hours:minutes:seconds", "days-hours",
// "days-hours:minutes", "days-hours:minutes:seconds", or UNLIMITED, INFINITE
// or -1. The result is in seconds, rounded up to a whole minute, the unit in
// which Slurm keeps limits. A limit of zero asks for no limit, as in Slurm:
// the result is Unlimited.
func ParseTime(s string) (uint32, error) {
	seconds, err := ParseWall(s)
	if err == nil && seconds == 0 {
		return Unlimited, nil
	}
	return seconds, err
}

// ParseWall reads a time as ParseTime does, for limits of which zero is one like
// any other, as sacctmgr's MaxWall and GrpWall.
func ParseWall(s string) (uint32, error) {
	switch strings.ToUpper(s) {
	case "UNLIMITED", "INFINITE", "-1":
		return Unlimited, nil
	}
	seconds, ok := sumTime(s)
	if !ok && longTime.MatchString(s) {
		return 0, errLongTime(s)
	}
	if !ok {
		return 0, fmt.Errorf("invalid time %q: type minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, days-hours:minutes:seconds or UNLIMITED", shorten(s))
	}
	seconds = (seconds + 59) / 60 * 60
	if seconds >= uint64(Unlimited) {
		return 0, errLongTime(s)
	}
	return uint32(seconds), nil
}

// longTime is a time whose form is right although a number in it is too large.
var longTime = regexp.MustCompile(`^([0-9]+-[0-9]+(:[0-9]+){0,2}|[0-9]+(:[0-9]+){0,2})$`)

func errLongTime(s string) error {
	return fmt.Errorf("time %q is too long: at most 49710 days, or UNLIMITED", shorten(s))
}

// sumTime adds the fields of a time. Fields above 59 count in full, as Slurm
// counts them: 90:00 is an hour and a half.
func sumTime(s string) (seconds uint64, ok bool) {
	days, clock, hasDays := strings.Cut(s, "-")
	if !hasDays {
		days, clock = "", s
	}
	fields := strings.Split(clock, ":")
	if len(fields) > 3 {
		return 0, false
	}
	var units []uint64
	switch {
	case hasDays:
		units = []uint64{3600, 60, 1}
	case len(fields) == 3:
		units = []uint64{3600, 60, 1}
	default:
		units = []uint64{60, 1}
	}
	if hasDays {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return 0, false
		}
		seconds = n * 86400
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return 0, false
		}
		seconds += n * units[i]
	}
	return seconds, true
}

// FormatTime writes seconds as squeue does for its %l and %M: "1:00",
// "1:00:00", "1-02:03:00", or "UNLIMITED".
func FormatTime(seconds uint32) string {
	if seconds == Unlimited {
		return "UNLIMITED"
	}
	days, hours := seconds/86400, seconds/3600%24
	minutes, rest := seconds/60%60, seconds%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, hours, minutes, rest)
	case hours > 0:
		return fmt.Sprintf("%d:%02d:%02d", hours, minutes, rest)
	default:
		return fmt.Sprintf("%d:%02d", minutes, rest)
	}
}

package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// durationUnits are those of ParseDuration, the largest first.
var durationUnits = []struct {
	letter  byte
	seconds uint64
}{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}

// maxDurationBytes is longer than any duration that makes sense.
const maxDurationBytes = 64

// ParseDuration reads a length of time with its units, the larger first: 90s, 5m,
// 1h30m, 2d. A bare number is refused, because Slurm counts some in minutes and others
// in seconds. The result is at least one second and less than Unlimited.
func ParseDuration(text string) (seconds uint32, err error) {
	rest, sum, begin := strings.ToLower(strings.TrimSpace(text)), uint64(0), 0
	if len(rest) > maxDurationBytes || rest == "" {
		return 0, errDuration(text)
	}
	for rest != "" {
		digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if digits == -1 {
			return 0, fmt.Errorf("%w: the unit is missing", errDuration(text))
		}
		count, err := strconv.ParseUint(rest[:digits], 10, 32)
		at := begin
		for at < len(durationUnits) && durationUnits[at].letter != rest[digits] {
			at++
		}
		if err != nil || at == len(durationUnits) {
			return 0, errDuration(text)
		}
		sum += count * durationUnits[at].seconds
		rest, begin = rest[digits+1:], at+1
	}
	if sum == 0 || sum >= uint64(Unlimited) {
		return 0, errDuration(text)
	}
	return uint32(sum), nil
}

func errDuration(text string) error {
	return fmt.Errorf("invalid time %q: type a number with its unit, such as 60s, 5m, 4h, 2d or 1h30m", shorten(text))
}

// FormatDuration writes seconds as ParseDuration reads them: 60 s is 1m, 90 s is 1m30s.
func FormatDuration(seconds uint32) string {
	var out strings.Builder
	left := uint64(seconds)
	for _, unit := range durationUnits {
		if count := left / unit.seconds; count > 0 {
			out.WriteString(strconv.FormatUint(count, 10) + string(unit.letter))
			left %= unit.seconds
		}
	}
	if out.Len() == 0 {
		return "0s"
	}
	return out.String()
}

package clusterfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// durationSeconds reads a number of seconds, or "minutes:seconds" and longer
// forms. A text without a colon could mean minutes or seconds, and is refused.
func durationSeconds(value any, normal uint32) (uint32, error) {
	seconds, err := spanSeconds(value, normal)
	if number, is := value.(int64); is && number < 1 || err == nil && seconds == 0 {
		return 0, fmt.Errorf("%v is out of range: at least 1 second", value)
	}
	return seconds, err
}

// spanSeconds is durationSeconds for what may also be none at all.
func spanSeconds(value any, normal uint32) (uint32, error) {
	switch value := value.(type) {
	case nil:
		return normal, nil
	case int64:
		if value < 0 || value >= int64(spec.Unlimited) {
			return 0, fmt.Errorf("%d is out of range: write a number of seconds", value)
		}
		return uint32(value), nil
	case string:
		seconds, ok := clockSeconds(value)
		if !ok {
			return 0, fmt.Errorf("%q is no duration: write a number of seconds without quotes, or \"minutes:seconds\"", value)
		}
		return seconds, nil
	}
	return 0, errors.New("write a number of seconds, or \"minutes:seconds\"")
}

// clockSeconds reads "m:s", "h:m:s", "d-h", "d-h:m" and "d-h:m:s" to the second.
func clockSeconds(text string) (uint32, bool) {
	days, clock, hasDays := strings.Cut(text, "-")
	fields := strings.Split(clock, ":")
	if !hasDays {
		days, fields = "0", strings.Split(text, ":")
	}
	if len(fields) > 3 || !hasDays && len(fields) < 2 {
		return 0, false
	}
	for hasDays && len(fields) < 3 {
		fields = append(fields, "0")
	}
	if len(fields) == 2 {
		fields = append([]string{"0"}, fields...)
	}
	total, unit := uint64(0), []uint64{86400, 3600, 60, 1}
	for i, field := range append([]string{days}, fields...) {
		n, err := strconv.ParseUint(field, 10, 24)
		if err != nil {
			return 0, false
		}
		total += n * unit[i]
	}
	return uint32(total), total < uint64(spec.Unlimited)
}

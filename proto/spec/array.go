package spec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// ParseArray reads the argument of --array: "0-9:2,20%4" is the even indices
// up to 8 and 20, at most four at once. Brackets around the indices are
// allowed. Ranges may overlap; each index counts once. The ranges of the
// result are normal (see NormalizeRanges).
func ParseArray(s string) (*pb.ArraySpec, error) {
	text := s
	if inside, found := strings.CutPrefix(s, "["); found {
		inside, after, closed := strings.Cut(inside, "]")
		if !closed {
			return nil, fmt.Errorf("invalid array %q: the bracket is not closed", shorten(s))
		}
		text = inside + after // "[0-9]%2" and "[0-9%2]" are both in use
	}
	indices, throttle, hasThrottle := strings.Cut(text, "%")
	array := &pb.ArraySpec{}
	if hasThrottle {
		n, err := strconv.ParseUint(throttle, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("invalid array %q: after %% comes the number of tasks that may run at once, such as 0-99%%10", shorten(s))
		}
		array.MaxRunning = uint32(n)
	}
	ranges, err := parseRanges(indices)
	if err != nil {
		return nil, fmt.Errorf("invalid array %q: %w", shorten(s), err)
	}
	array.Ranges = ranges
	return array, nil
}

// CheckArray says what is wrong with an array that came over the wire: no
// task, an index above MaxArrayIndex, a step of 0, a range that runs backwards,
// or more ranges, as they are or once they are normal, than MaxArrayRanges.
func CheckArray(array *pb.ArraySpec) error {
	ranges := array.GetRanges()
	if err := checkRanges(ranges); err != nil {
		return fmt.Errorf("invalid array: %w", err)
	}
	if len(normalize(ranges, MaxArrayRanges)) > MaxArrayRanges {
		return errTooManyRanges()
	}
	return nil
}

// parseRanges reads "1-5:2,9" into normal ranges. As in Slurm blanks may stand before an
// index, and a comma behind the last: programs write such lists.
func parseRanges(s string) ([]*pb.ArrayRange, error) {
	if strings.Count(s, ",") >= MaxArrayRanges {
		return nil, errTooManyRanges()
	}
	var ranges []*pb.ArrayRange
	for part := range strings.SplitSeq(strings.TrimSuffix(s, ","), ",") {
		r, err := parseRange(strings.TrimLeft(part, " "))
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	if err := checkRanges(ranges); err != nil {
		return nil, err
	}
	ranges = normalize(ranges, MaxArrayRanges)
	if len(ranges) > MaxArrayRanges {
		return nil, errTooManyRanges()
	}
	return ranges, nil
}

func parseRange(s string) (*pb.ArrayRange, error) {
	span, stepText, hasStep := strings.Cut(s, ":")
	low, high, isRange := strings.Cut(span, "-")
	if !isRange {
		high = low
	}
	first, err1 := strconv.ParseUint(low, 10, 32)
	last, err2 := strconv.ParseUint(high, 10, 32)
	step, err3 := uint64(1), error(nil)
	if hasStep {
		step, err3 = strconv.ParseUint(stepText, 10, 32)
	}
	if allDigits(low) && allDigits(high) && (errors.Is(err1, strconv.ErrRange) || errors.Is(err2, strconv.ErrRange)) {
		return nil, fmt.Errorf("%q is too high: the highest index is %d", shorten(s), MaxArrayIndex)
	}
	if err1 != nil || err2 != nil || err3 != nil || hasStep && !isRange {
		return nil, fmt.Errorf("%q is not an index or a range: type 0-9, 0-9:2 or 1,5,7", shorten(s))
	}
	return &pb.ArrayRange{First: uint32(first), Last: uint32(last), Step: uint32(step)}, nil
}

// checkRanges bounds what NormalizeRanges has to do.
func checkRanges(ranges []*pb.ArrayRange) error {
	if len(ranges) == 0 {
		return fmt.Errorf("it names no task: type indices such as 0-9")
	}
	if len(ranges) > MaxArrayRanges {
		return errTooManyRanges()
	}
	tasks := uint64(0)
	for _, r := range ranges {
		switch {
		case r.GetStep() == 0:
			return fmt.Errorf("the step of %d-%d is 0: it must be at least 1", r.GetFirst(), r.GetLast())
		case r.GetFirst() > r.GetLast():
			return fmt.Errorf("range %d-%d runs backwards: type %d-%d", r.GetFirst(), r.GetLast(), r.GetLast(), r.GetFirst())
		case r.GetLast() > MaxArrayIndex:
			return fmt.Errorf("index %d is too high: the highest is %d", r.GetLast(), MaxArrayIndex)
		}
		tasks += uint64(countRange(r))
	}
	if tasks > 2*(MaxArrayIndex+1) {
		return fmt.Errorf("it names the same tasks over and over: name each once")
	}
	return nil
}

func errTooManyRanges() error {
	return fmt.Errorf("an array of more than %d separate ranges is too long: use ranges such as 0-9 or 0-9:2", MaxArrayRanges)
}

// FormatArray writes ranges and the throttle as squeue does, "0-9%2"; a
// throttle of 0 is none.
func FormatArray(ranges []*pb.ArrayRange, maxRunning uint32) string {
	var out strings.Builder
	for i, r := range ranges {
		if i > 0 {
			out.WriteByte(',')
		}
		switch {
		case r.GetFirst() == r.GetLast():
			fmt.Fprintf(&out, "%d", r.GetFirst())
		case r.GetStep() <= 1:
			fmt.Fprintf(&out, "%d-%d", r.GetFirst(), r.GetLast())
		default:
			fmt.Fprintf(&out, "%d-%d:%d", r.GetFirst(), r.GetLast(), r.GetStep())
		}
	}
	if maxRunning > 0 {
		fmt.Fprintf(&out, "%%%d", maxRunning)
	}
	return out.String()
}

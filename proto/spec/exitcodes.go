package spec

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// highestExitCode is that of a process.
const highestExitCode = 255

// ParseExitCodes reads exit statuses as RequeueExit of slurm.conf(5) has them,
// "1-9,18"; "" are none. The result is in normal form. FormatArray writes it.
func ParseExitCodes(s string) ([]*pb.ArrayRange, error) {
	if s == "" {
		return nil, nil
	}
	array, err := ParseArray(s)
	if err != nil || array.GetMaxRunning() != 0 {
		return nil, fmt.Errorf("%q is no list of exit statuses: write them as in 1-9,18", shorten(s))
	}
	return CheckExitCodes(array.GetRanges())
}

// CheckExitCodes puts exit statuses that came over the wire into normal form,
// and refuses those that no failed process has.
func CheckExitCodes(ranges []*pb.ArrayRange) ([]*pb.ArrayRange, error) {
	if err := CheckArray(&pb.ArraySpec{Ranges: ranges}); err != nil {
		return nil, fmt.Errorf("no exit statuses: %w", err)
	}
	ranges = NormalizeRanges(ranges)
	switch last := ranges[len(ranges)-1].GetLast(); {
	case ranges[0].GetFirst() == 0:
		return nil, fmt.Errorf("with exit status 0 a job ends well: leave it out")
	case last > highestExitCode:
		return nil, fmt.Errorf("exit status %d is too high: the highest is %d", last, highestExitCode)
	}
	return ranges, nil
}

package ranges

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Range is First, First+Step, … up to and including Last.
type Range struct {
	_     struct{} `cbor:",toarray"`
	First uint32
	Last  uint32
	Step  uint32 // at least 1
}

// Messages are the ranges as the API has them.
func Messages(tasks []Range) []*pb.ArrayRange {
	ranges := make([]*pb.ArrayRange, len(tasks))
	for i, r := range tasks {
		ranges[i] = &pb.ArrayRange{First: r.First, Last: r.Last, Step: r.Step}
	}
	return ranges
}

// FromMessages are ranges of the API as the log and the state have them.
func FromMessages(ranges []*pb.ArrayRange) []Range {
	if len(ranges) == 0 {
		return nil
	}
	tasks := make([]Range, len(ranges))
	for i, r := range ranges {
		tasks[i] = Range{First: r.GetFirst(), Last: r.GetLast(), Step: r.GetStep()}
	}
	return tasks
}

// Count is how many numbers normal ranges hold.
func Count(ranges []Range) uint32 {
	count := uint32(0)
	for _, r := range ranges {
		count += (r.Last-r.First)/r.Step + 1
	}
	return count
}

// Contains reports whether a number is in normal ranges.
func Contains(ranges []Range, number uint32) bool {
	for _, r := range ranges {
		if number <= r.Last {
			return number >= r.First && (number-r.First)%r.Step == 0
		}
	}
	return false
}

// Subtract is tasks without those in remove. Both are normal.
func Subtract(tasks, remove []Range) []Range {
	var left []*pb.ArrayRange
	removed := Messages(remove)
	for _, r := range Messages(tasks) {
		left = append(left, cut(r, spec.Intersect([]*pb.ArrayRange{r}, removed))...)
	}
	return FromMessages(spec.NormalizeRanges(left))
}

// cut is what is left of one range without holes, which are within it.
func cut(r *pb.ArrayRange, holes []*pb.ArrayRange) []*pb.ArrayRange {
	var left []*pb.ArrayRange
	next := r.First // the first task not decided yet
	keep := func(before uint32) {
		if before > next {
			left = append(left, &pb.ArrayRange{First: next, Last: before - r.Step, Step: r.Step})
		}
	}
	for _, hole := range holes {
		if hole.First == hole.Last || hole.Step == r.Step {
			keep(hole.First)
			next = hole.Last + r.Step
			continue
		}
		for task := hole.First; task <= hole.Last; task += hole.Step {
			keep(task)
			next = task + r.Step
		}
	}
	keep(r.Last + r.Step)
	return left
}

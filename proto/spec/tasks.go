package spec

import (
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Normal ranges, which every function here returns and, but for
// NormalizeRanges, takes: ascending, no two spans overlapping, no range that
// its neighbour could join; a range has one task and step 1, or at least two
// tasks and step 1, or at least three tasks and a larger step, and last is a
// task. No function changes its arguments or the ranges they point to.

// CountTasks is the number of tasks in ranges.
func CountTasks(ranges []*pb.ArrayRange) uint32 {
	n := uint32(0)
	for _, r := range ranges {
		n += countRange(r)
	}
	return n
}

func countRange(r *pb.ArrayRange) uint32 {
	if r.GetLast() < r.GetFirst() {
		return 0
	}
	return (r.GetLast()-r.GetFirst())/max(r.GetStep(), 1) + 1
}

// ContainsTask reports whether index is one of the tasks.
func ContainsTask(ranges []*pb.ArrayRange, index uint32) bool {
	_, found := findTask(ranges, index)
	return found
}

// findTask is the position of the range that holds index.
func findTask(ranges []*pb.ArrayRange, index uint32) (int, bool) {
	i, _ := slices.BinarySearchFunc(ranges, index, func(r *pb.ArrayRange, index uint32) int {
		if r.GetLast() < index {
			return -1
		}
		return 1
	})
	if i == len(ranges) {
		return i, false
	}
	r := ranges[i]
	return i, r.GetFirst() <= index && (index-r.GetFirst())%max(r.GetStep(), 1) == 0
}

// FirstTask is the lowest index, and false when there is none.
func FirstTask(ranges []*pb.ArrayRange) (uint32, bool) {
	if len(ranges) == 0 {
		return 0, false
	}
	return ranges[0].GetFirst(), true
}

// RemoveTask is ranges without index.
func RemoveTask(ranges []*pb.ArrayRange, index uint32) []*pb.ArrayRange {
	at, found := findTask(ranges, index)
	if !found {
		return ranges
	}
	var out rangeList
	out.ranges = append(make([]*pb.ArrayRange, 0, len(ranges)+1), ranges[:at]...)
	r := ranges[at]
	step := max(r.GetStep(), 1)
	if index > r.GetFirst() {
		out.add(r.GetFirst(), index-step, step)
	}
	if index < r.GetLast() {
		out.add(index+step, r.GetLast(), step)
	}
	for _, r := range ranges[at+1:] {
		out.add(r.GetFirst(), r.GetLast(), r.GetStep())
	}
	return out.ranges
}

// Intersect is the tasks that are in both.
func Intersect(a, b []*pb.ArrayRange) []*pb.ArrayRange {
	var out rangeList
	// The pieces of one pair of ranges may interleave with those of the next
	// pair only when spans overlap, which normal ranges rule out.
	for i, j := 0, 0; i < len(a) && j < len(b); {
		out.addCommon(a[i], b[j])
		if a[i].GetLast() <= b[j].GetLast() {
			i++
		} else {
			j++
		}
	}
	return out.ranges
}

// addCommon adds the tasks that are in both ranges.
func (out *rangeList) addCommon(a, b *pb.ArrayRange) {
	wide, fine := a, b // wide has the larger step
	if wide.GetStep() < fine.GetStep() {
		wide, fine = fine, wide
	}
	ws, fs := uint64(max(wide.GetStep(), 1)), uint64(max(fine.GetStep(), 1))
	low := uint64(max(a.GetFirst(), b.GetFirst()))
	high := uint64(min(a.GetLast(), b.GetLast()))
	first := uint64(wide.GetFirst())
	if first < low {
		first += (low - first + ws - 1) / ws * ws
	}
	// The remainders by fs repeat after at most fs steps of ws.
	for tries := uint64(0); tries < fs && first <= high; tries, first = tries+1, first+ws {
		if (first-uint64(fine.GetFirst()))%fs == 0 {
			step := ws / gcd(ws, fs) * fs
			last := first + (high-first)/step*step
			out.add(uint32(first), uint32(last), uint32(min(step, uint64(Unlimited))))
			return
		}
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// NormalizeRanges makes any ranges normal. Tasks above MaxArrayIndex are
// dropped, so that the work is bounded; CheckArray refuses them beforehand.
func NormalizeRanges(ranges []*pb.ArrayRange) []*pb.ArrayRange {
	return normalize(ranges, MaxArrayIndex+1)
}

// normalize gives up at about enough ranges, and then answers more than that:
// tasks at two distances make a million of them, which nobody wants.
func normalize(ranges []*pb.ArrayRange, enough int) []*pb.ArrayRange {
	sorted := make([]*pb.ArrayRange, 0, len(ranges))
	for _, r := range ranges {
		if r.GetFirst() > r.GetLast() || r.GetFirst() > MaxArrayIndex {
			continue
		}
		step := max(r.GetStep(), 1)
		last := min(r.GetLast(), MaxArrayIndex)
		last -= (last - r.GetFirst()) % step
		if last == r.GetFirst() {
			step = 1 // a huge step would wrap round when it is added
		}
		sorted = append(sorted, &pb.ArrayRange{First: r.GetFirst(), Last: last, Step: step})
	}
	slices.SortFunc(sorted, func(a, b *pb.ArrayRange) int { return int(a.First) - int(b.First) })
	var out rangeList
	for len(sorted) > 0 && len(out.ranges) <= 2*enough {
		// A cluster is a stretch of ranges whose spans overlap.
		size, last := 1, sorted[0].Last
		for size < len(sorted) && sorted[size].First <= last {
			last = max(last, sorted[size].Last)
			size++
		}
		if size == 1 {
			out.add(sorted[0].First, sorted[0].Last, sorted[0].Step)
		} else {
			out.addCluster(sorted[:size], last, enough)
		}
		sorted = sorted[size:]
	}
	return out.ranges
}

// addCluster adds ranges whose spans overlap, by marking their tasks.
func (out *rangeList) addCluster(cluster []*pb.ArrayRange, last uint32, enough int) {
	first := cluster[0].First
	marked := make([]bool, last-first+1)
	for _, r := range cluster {
		for i := r.First; i <= r.Last; i += r.Step {
			marked[i-first] = true
		}
	}
	for i, is := range marked {
		if index := first + uint32(i); is && !out.extend(index) {
			out.add(index, index, 1)
			if len(out.ranges) > 2*enough { // the last few may yet be joined
				return
			}
		}
	}
}

// extend lets the last range include one more task where that continues it,
// and reports whether it did: what add would do, without a new range for each of
// four million tasks.
func (out *rangeList) extend(index uint32) bool {
	n := len(out.ranges)
	if n == 0 {
		return false
	}
	end := out.ranges[n-1]
	if end.First == end.Last || index-end.Last != end.Step {
		return false
	}
	end.Last = index
	return true
}

// rangeList grows by ranges beyond its end and stays normal.
type rangeList struct{ ranges []*pb.ArrayRange }

// add appends a range that begins after all others end, and lets it join its
// neighbours where it continues them.
func (out *rangeList) add(first, last, step uint32) {
	if first != last && step > 1 && (last-first)/step == 1 {
		out.add(first, first, 1)
		first = last
	}
	if first == last {
		step = 1
	}
	out.ranges = append(out.ranges, &pb.ArrayRange{First: first, Last: last, Step: step})
	for out.join() {
	}
}

// join merges the last ranges into one where they are one progression.
func (out *rangeList) join() bool {
	n := len(out.ranges)
	if n < 2 {
		return false
	}
	a, b := out.ranges[n-2], out.ranges[n-1]
	gap := b.GetFirst() - a.GetLast()
	aOne, bOne := a.GetFirst() == a.GetLast(), b.GetFirst() == b.GetLast()
	fits := (aOne || a.GetStep() == gap) && (bOne || b.GetStep() == gap)
	if fits && (gap == 1 || !aOne || !bOne) {
		out.replace(2, a.GetFirst(), b.GetLast(), gap)
		return true
	}
	if n < 3 || !aOne || !bOne {
		return false
	}
	c := out.ranges[n-3]
	if c.GetFirst() == c.GetLast() && a.GetFirst()-c.GetFirst() == gap {
		out.replace(3, c.GetFirst(), b.GetLast(), gap)
		return true
	}
	return false
}

// replace puts one new range in the place of the last n; the old ones may
// belong to the caller and are left as they are.
func (out *rangeList) replace(n int, first, last, step uint32) {
	keep := len(out.ranges) - n
	out.ranges = append(out.ranges[:keep], &pb.ArrayRange{First: first, Last: last, Step: step})
}

package registry

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// ParkTimes is what a node has measured of parking jobs, and from that states a bound: how
// long it takes at most to park one of a kind and size. Of each class it remembers the
// longest times of its newest parks, in blocks, so that it is small, forgets what is long
// ago and goes up with the first park that was longer. The zero value has measured nothing.
type ParkTimes struct {
	Classes []ParkClass `json:"classes"` // ascending by model and size
}

// ParkClass is what was measured of one kind and size.
type ParkClass struct {
	Model string `json:"model"` // of the GPUs; "" = the job had nothing on GPUs
	// Size is that of what it had there: of each class up to twice that of the one before.
	Size int `json:"size"`
	// Blocks are the longest time in each block of parks, as a multiple of what is expected
	// of such a park, the newest last. Parks counts all that the blocks are of.
	Blocks []float64 `json:"blocks"`
	Parks  int       `json:"parks"`
	// Raised is for how many more parks the bound is higher, because one was passed.
	Raised int `json:"raised"`
}

// ParkSize is what is parked.
type ParkSize struct {
	Model    string // of its GPUs; "" = it has none
	GPUBytes uint64 // what it has on them
}

// ParkMeasured is how long it took to park something.
type ParkMeasured struct {
	Size ParkSize
	Took time.Duration
}

// parkSize is that of an allocation with so much on its GPUs.
func (p *Alloc) parkSize(gpuBytes uint64) ParkSize {
	size := ParkSize{GPUBytes: gpuBytes}
	for _, on := range p.Order.GetAllocation() {
		if on.GetNode() == p.Order.GetNode() && len(on.GetDevices()) > 0 {
			size.Model = on.GetDevices()[0].GetModel()
		}
	}
	return size
}

// The blocks: of 64 parks, and 64 of them. One of 4,096 parks is the longest, so after as
// many about one in 4,096 takes longer than any of them.
const (
	parkBlock  = 64
	parkBlocks = 64
	// parkClasses bounds how many are kept: more than the sizes of two models of GPUs.
	parkClasses = 64
)

// What is expected of a park before any was measured, and the bound then. Freezing takes
// milliseconds; a driver copies some gigabytes a second.
const (
	parkBase     = 10 * time.Millisecond
	parkRate     = 3 << 30 // bytes of GPU memory a second
	unmeasured   = 2       // times what is expected
	unmeasuredBy = time.Second
	// leastPark is the least bound: a machine that is busy for a moment takes that long.
	leastPark = 20 * time.Millisecond
)

// expected is a first guess. What is measured is a multiple of it, so that parks of one
// class, of which some are nearly twice as large as others, are compared with each other.
func (s ParkSize) expected() float64 {
	return parkBase.Seconds() + float64(s.GPUBytes)/parkRate
}

// class is the model and size of a class: 0 = nothing on GPUs, 1 = up to 256 MiB.
func (s ParkSize) class() (string, int) {
	if s.GPUBytes == 0 {
		return "", 0
	}
	return s.Model, 1 + bits.Len64((s.GPUBytes-1)>>28)
}

func compareClass(c ParkClass, model string, size int) int {
	return cmp.Or(cmp.Compare(c.Model, model), cmp.Compare(c.Size, size))
}

// Add notes how long a park took.
func (t *ParkTimes) Add(size ParkSize, took time.Duration) {
	model, class := size.class()
	at, known := slices.BinarySearchFunc(t.Classes, class, func(c ParkClass, class int) int { return compareClass(c, model, class) })
	if !known {
		if len(t.Classes) >= parkClasses {
			return
		}
		t.Classes = slices.Insert(t.Classes, at, ParkClass{Model: model, Size: class})
	}
	c := &t.Classes[at]
	ratio := took.Seconds() / size.expected()
	if c.Raised > 0 {
		c.Raised--
	}
	if c.Parks > 0 && ratio > c.longest()*c.margin() {
		c.Raised = raisedFor
	}
	if c.Parks%parkBlock == 0 {
		c.Blocks = append(c.Blocks, 0)
		c.Blocks = c.Blocks[max(len(c.Blocks)-parkBlocks, 0):]
	}
	c.Parks++
	last := &c.Blocks[len(c.Blocks)-1]
	*last = max(*last, ratio)
}

// The bound is higher for a while after a park was longer: the times may be rising.
const (
	raisedFor = 256
	raisedBy  = 1.25
)

// longest is the multiple of the longest park that is remembered.
func (c *ParkClass) longest() float64 { return slices.Max(c.Blocks) }

// margin is by how much the bound is more than the longest park: the fewer were measured,
// the more.
func (c *ParkClass) margin() float64 {
	margin := 1.0
	switch {
	case c.Parks < 16:
		margin = 4
	case c.Parks < 128:
		margin = 2
	case c.Parks < 512:
		margin = 1.3
	case c.Parks < parkBlock*parkBlocks:
		margin = 1.06
	}
	if c.Raised > 0 {
		margin *= raisedBy
	}
	return margin
}

// Bound is how long it takes at most to park something, and on how many parks that is
// founded. Where none of its size was measured those of the next smaller one count, and
// then those of the next larger.
func (t *ParkTimes) Bound(size ParkSize) (time.Duration, int) {
	model, class := size.class()
	at, known := slices.BinarySearchFunc(t.Classes, class, func(c ParkClass, class int) int { return compareClass(c, model, class) })
	if !known {
		switch {
		case at > 0 && t.Classes[at-1].Model == model && class > 0:
			at--
		case at < len(t.Classes) && t.Classes[at].Model == model && class > 0:
		default:
			return unmeasuredBy + seconds(unmeasured*size.expected()), 0
		}
	}
	c := &t.Classes[at]
	return max(seconds(c.longest()*c.margin()*size.expected()), leastPark), c.Parks
}

// Check says what is wrong with measurements that were read.
func (t *ParkTimes) Check() error {
	if len(t.Classes) > parkClasses {
		return fmt.Errorf("%d classes are too many", len(t.Classes))
	}
	for i := range t.Classes {
		c := &t.Classes[i]
		switch {
		case i > 0 && compareClass(t.Classes[i-1], c.Model, c.Size) >= 0:
			return fmt.Errorf("class %q %d is out of order", c.Model, c.Size)
		case c.Parks <= 0 || len(c.Blocks) != min((c.Parks+parkBlock-1)/parkBlock, parkBlocks) || c.Raised < 0:
			return fmt.Errorf("class %q %d has %d parks in %d blocks", c.Model, c.Size, c.Parks, len(c.Blocks))
		}
		for _, longest := range c.Blocks {
			if !(longest >= 0 && longest < 1e9) {
				return fmt.Errorf("class %q %d: a park took %g times what is expected", c.Model, c.Size, longest)
			}
		}
	}
	return nil
}

// seconds is a time of so many; at most a day.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 86_400) * float64(time.Second))
}

// Told is a bound as it is told: rounded up to one of few, so that it seldom changes.
func Told(bound time.Duration) time.Duration {
	step := math.Ceil(math.Log(max(bound.Seconds(), 0.001)/0.001) / math.Log(toldStep))
	return seconds(0.001 * math.Pow(toldStep, step)).Round(time.Millisecond)
}

const toldStep = 1.1

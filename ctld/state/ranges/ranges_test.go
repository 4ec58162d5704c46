package ranges

import (
	"math/rand"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestSubtract against plain sets.
func TestSubtract(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	some := func() []Range {
		var out []*pb.ArrayRange
		for range 1 + random.Intn(4) {
			first := uint32(random.Intn(60))
			out = append(out, &pb.ArrayRange{First: first, Last: first + uint32(random.Intn(30)), Step: 1 + uint32(random.Intn(4))})
		}
		return FromMessages(spec.NormalizeRanges(out))
	}
	for range 5000 {
		a, b := some(), some()
		left := Subtract(a, b)
		for n := range uint32(100) {
			if want := Contains(a, n) && !Contains(b, n); Contains(left, n) != want {
				t.Fatalf("%v without %v is %v: task %d should be in it: %t", a, b, left, n, want)
			}
		}
	}
}

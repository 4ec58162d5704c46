package ordered

import (
	"os"
	"strings"
	"testing"
)

func TestSeeds(t *testing.T) {
	for seed := range uint64(10) {
		o := Options{Seed: seed}
		if os.Getenv("SIMTRACE") != "" {
			o.Trace = os.Stderr
		}
		r := Run(o)
		t.Logf("seed %d: %+v %s", seed, r.Counts, r.Digest)
		if r.Failure != nil {
			t.Fatalf("seed %d: at %v: %v\n%s", seed, r.Failure.At, r.Failure, strings.Join(r.Last, ""))
		}
	}
}

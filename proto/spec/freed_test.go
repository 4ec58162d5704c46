package spec

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestFormatFreed(t *testing.T) {
	for want, freed := range map[string]*pb.HardwareFreed{
		"":                     {},
		"its node took 0.35 s": {TookMs: 350, Slowest: "freezing its processes", SlowestMs: 300},
		"its node took 2.00 s, copying its GPU memory: 1.90 s":                       {TookMs: 2004, Slowest: "copying its GPU memory", SlowestMs: 1900},
		"its node took 0.35 s, freezing its processes: 0.30 s; that was 0.10 s late": {TookMs: 350, LateMs: 104, Slowest: "freezing its processes", SlowestMs: 300},
	} {
		if got := FormatFreed(freed); got != want {
			t.Errorf("%v: %q, want %q", freed, got, want)
		}
	}
}

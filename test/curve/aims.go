package main

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/test/curve/queue"
)

// aim is what a figure of some sizes should not pass. Missing one fails nothing.
type aim struct {
	what        string
	nodes, jobs int // 0 = all
	limit       float64
	unit        string
	of          func(*queue.Figures) float64
}

// enoughStarts is how many make what one takes more than chance.
const enoughStarts = 1000

var aims = []aim{
	{"100,000 jobs on 1,000 nodes, cold", 1_000, 100_000, 300, "ms", func(f *queue.Figures) float64 { return f.ColdMS }},
	{"100,000 jobs on 1,000 nodes, after one event", 1_000, 100_000, 20, "ms", func(f *queue.Figures) float64 { return f.EventMS }},
	{"1,000,000 jobs on 10,000 nodes, cold", 10_000, million, 3000, "ms", func(f *queue.Figures) float64 { return f.ColdMS }},
	{"a start", 0, 0, 20, "us", func(f *queue.Figures) float64 {
		if f.Starts < enoughStarts {
			return 0
		}
		return f.StartUS
	}},
}

// worst is the largest figure of the sizes that an aim is about, with backfill; 0 = it was
// not measured.
func (a *aim) worst(all []queue.Figures) (worst float64) {
	for i := range all {
		f := &all[i]
		if f.Type == "backfill" && (a.nodes == 0 || f.Nodes == a.nodes) && (a.jobs == 0 || f.Jobs == a.jobs) {
			worst = max(worst, a.of(f))
		}
	}
	return worst
}

func printAims(all []queue.Figures) {
	fmt.Println("\naims, with backfill")
	for i := range aims {
		a := &aims[i]
		worst, verdict := a.worst(all), "MISSED"
		switch {
		case worst == 0:
			verdict = "not measured"
		case worst <= a.limit:
			verdict = "reached"
		}
		fmt.Printf("  %-12s  %8.1f %s  %s: at most %g %s\n", verdict, worst, a.unit, a.what, a.limit, a.unit)
	}
}

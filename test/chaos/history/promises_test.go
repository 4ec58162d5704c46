package history

import (
	"slices"
	"testing"
)

// reclaimed is a history in which node n1 was taken back at 100 s for two seconds later,
// and lent again at 110 s, with a guest that gave signs of life at some times.
func reclaimed(onNode bool, signs ...int64) *History {
	h := &History{Reclaims: []Reclaim{{Node: "n1", OnNode: onNode, Asked: 99 * second, At: 100 * second, Deadline: 102 * second, Free: second}}}
	h.Releases = []Release{{"n2", 101 * second}, {"n1", 90 * second}, {"n1", 110 * second}}
	run := Run{Job: 1, Name: "plain-1", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1"}}
	for _, sign := range signs {
		run.Signs = append(run.Signs, sign*second)
	}
	run.Start, run.Last = run.Signs[0], run.Signs[len(run.Signs)-1]
	h.Runs = []Run{run}
	return h
}

func TestPromises(t *testing.T) {
	on := func(kind string, nodes ...string) Fault {
		return Fault{Kind: kind, Nodes: nodes, Everywhere: len(nodes) == 0, From: 99 * second, To: 101 * second}
	}
	for name, row := range map[string]struct {
		history *History
		fault   Fault
		late    bool // as its owner was told
		kept    bool
		why     string
	}{
		"parked, and it goes on":              {history: reclaimed(true, 50, 100, 101, 111, 112), kept: true},
		"a moment late":                       {history: reclaimed(true, 50, 102), kept: true},
		"it runs on":                          {history: reclaimed(true, 50, 100, 104, 111)},
		"its owner was told so":               {history: reclaimed(false, 50, 100), late: true},
		"the daemon was stopped":              {history: reclaimed(true, 50, 105), fault: on("stop-gnoded", "n1"), why: "stop-gnoded"},
		"that of another node was":            {history: reclaimed(true, 50, 105), fault: on("stop-gnoded", "n2")},
		"a reclaim explains none":             {history: reclaimed(true, 50, 105), fault: on("reclaim", "n1")},
		"nobody led":                          {history: reclaimed(false, 50, 105), fault: on("leader-change"), why: "leader-change"},
		"nobody led, and nobody has to there": {history: reclaimed(true, 50, 105), fault: on("leader-change")},
		"all was killed":                      {history: reclaimed(true, 50, 105), fault: on("all-daemons-killed"), why: "all-daemons-killed"},
	} {
		h := row.history
		h.Reclaims[0].Late = row.late
		if row.fault.Kind != "" {
			h.Faults = []Fault{row.fault}
		}
		got := h.Promises()
		if len(got) != 1 || got[0].Kept != row.kept || got[0].Why != row.why {
			t.Errorf("%s: %+v", name, got)
		}
		c := &checker{h: h}
		if c.checkPromises(); (len(c.found) > 0) != (!row.kept && row.why == "") {
			t.Errorf("%s: found %v", name, c.found)
		}
	}
	h := reclaimed(true, 50, 105)
	h.Jobs = []Job{{ID: 1, Epoch: 2}}
	if got := h.Promises(); !got[0].Kept {
		t.Errorf("it went on elsewhere and does not write that down: %+v", got)
	}
	h.Reclaims[0].Deadline = 0
	if got := h.Promises(); len(got) > 0 {
		t.Errorf("nobody heard a promise, and it is judged: %+v", got)
	}
}

// TestDevicesOfParked: others may have the devices of a job while it is parked.
func TestDevicesOfParked(t *testing.T) {
	run := func(job uint32, signs ...int64) Run {
		r := Run{Job: job, Name: "x", Epoch: 1, Batch: true, Node: "n1", Devices: []string{"gpu0"}, Names: []string{"gpu-1"}}
		for _, sign := range signs {
			r.Signs = append(r.Signs, sign*second)
		}
		r.Start, r.Last = r.Signs[0], r.Signs[len(r.Signs)-1]
		return r
	}
	for name, row := range map[string]struct {
		runs  []Run
		twice bool
	}{
		"in its pause":       {[]Run{run(1, 1, 2, 20, 21), run(2, 5, 6, 7)}, false},
		"one after another":  {[]Run{run(1, 1, 2), run(2, 5, 6, 7)}, false},
		"beside it":          {[]Run{run(1, 4, 5, 6), run(2, 5, 6, 7)}, true},
		"when it goes on":    {[]Run{run(1, 1, 2, 7, 8), run(2, 5, 6, 7)}, true},
		"its own second run": {[]Run{run(1, 4, 5, 6), run(1, 5, 6, 7)}, false},
	} {
		c := &checker{h: &History{Runs: row.runs}}
		c.checkDevices()
		if got := slices.ContainsFunc(c.found, func(v Violation) bool { return v.Wrong == DeviceTwice }); got != row.twice {
			t.Errorf("%s: %v", name, c.found)
		}
	}
}

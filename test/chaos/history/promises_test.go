package history

import (
	"slices"
	"testing"
)

// reclaimed is a history in which node n1 was taken back at 100 s for two seconds later,
// and lent again at 110 s, with a guest that gave signs of life at some times.
func reclaimed(signs ...int64) *History {
	h := &History{Reclaims: []Reclaim{{Node: "n1", Asked: 99 * second, At: 100 * second, Deadline: 102 * second, Free: second}}}
	h.Releases = []Release{{"n2", 101 * second, 102 * second}, {"n1", 90 * second, 91 * second}, {"n1", 110 * second, 111 * second}}
	run := Run{Job: 1, Name: "plain-1", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1"}}
	for _, sign := range signs {
		run.Signs = append(run.Signs, sign*second)
	}
	run.Start, run.Last = run.Signs[0], run.Signs[len(run.Signs)-1]
	h.Runs = []Run{run}
	return h
}

func TestPromises(t *testing.T) {
	for name, row := range map[string]struct {
		history *History
		guest   Guest
		stalls  []Stall
		kept    bool
		heard   int64 // seconds
		why     string
	}{
		"parked, and it goes on":        {history: reclaimed(50, 100, 101, 111, 112), guest: Guest{Freed: 101 * second, Took: second}, kept: true},
		"at the last moment":            {history: reclaimed(50, 102), kept: true},
		"its owner was told late":       {history: reclaimed(50, 100), guest: Guest{Freed: 105 * second, Took: second}, kept: true, heard: 3},
		"it runs on":                    {history: reclaimed(50, 100, 104, 111)},
		"its node was late, and knows":  {history: reclaimed(50, 103), guest: Guest{Took: 3 * second, Late: second, Detail: "slow"}, why: "job 1: slow"},
		"by more than it knows":         {history: reclaimed(50, 103, 104), guest: Guest{Took: 3 * second, Late: second, Detail: "slow"}},
		"the machine stood still":       {history: reclaimed(50, 103), stalls: []Stall{{101 * second, 104 * second}}, why: "the machine of the test stood still for 2.000 s"},
		"for too short":                 {history: reclaimed(50, 105), stalls: []Stall{{101 * second, 102 * second}, {106 * second, 120 * second}}},
		"and the owner was there again": {history: reclaimed(50, 100, 110, 111), kept: true},
	} {
		h := row.history
		row.guest.Job = 1
		h.Reclaims[0].Guests, h.Stalls = []Guest{row.guest}, row.stalls
		// A fault on the node excuses nothing.
		h.Faults = []Fault{{Kind: "stop-gnoded", Nodes: []string{"n1"}, From: 99 * second, To: 120 * second}}
		got := h.Promises()
		if len(got) != 1 || got[0].Kept != row.kept || got[0].Why != row.why || got[0].Heard != row.heard*second {
			t.Errorf("%s: %+v", name, got)
		}
		c := &checker{h: h}
		if c.checkPromises(); (len(c.found) > 0) != (!row.kept && row.why == "") {
			t.Errorf("%s: found %v", name, c.found)
		}
	}
	h := reclaimed(50, 105)
	h.Releases = append(h.Releases, Release{"n1", 99 * second, 103 * second})
	if got := h.Promises(); !got[0].Kept {
		t.Errorf("it was lent again meanwhile: %+v", got)
	}
	h = reclaimed(50, 105)
	h.Faults = []Fault{{Kind: PowerOff, Nodes: []string{"n1"}, From: 104 * second, To: 120 * second}}
	if got := h.Promises(); !got[0].Kept {
		t.Errorf("the machine was switched off: %+v", got)
	}
	h = reclaimed(50, 105)
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

package history

import "testing"

// moved is a good history in which job 20 counts to 100: it was moved after 40, and
// after its node was switched off it went on at 61, having come to 70.
func moved() *History {
	return &History{
		Submissions: []Submission{{Name: "saved-20", Nodes: 1, Requeue: true, Asked: second, Answered: 2 * second, Job: 20, Counts: 100}},
		Requests:    []Request{{Verb: Move, Job: 20, Asked: 103 * second, Over: 104 * second}},
		Runs: []Run{
			{Job: 20, Name: "saved-20", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1"}, Start: 100 * second, Last: 104 * second, First: 1, Count: 40},
			{Job: 20, Name: "saved-20", Epoch: 2, Batch: true, Node: "n1", Nodes: []string{"n2"}, Start: 105 * second, Last: 108 * second, Moved: true, First: 41, Count: 70},
			{Job: 20, Name: "saved-20", Epoch: 3, Batch: true, Node: "n1", Nodes: []string{"n3"}, Start: 115 * second, Last: 119 * second, Moved: true, First: 61, Count: 100, Ended: true},
		},
		Faults: []Fault{{Kind: "power-off", Nodes: []string{"n2"}, Harm: Kills, From: 108 * second, To: 112 * second}},
		Jobs:   []Job{{ID: 20, Index: -1, Name: "saved-20", State: "COMPLETED", Epoch: 3, Restarts: 2}},
	}
}

func TestMoved(t *testing.T) {
	for _, violation := range Check(moved()) {
		t.Error(violation)
	}
	if exactly, back, silent := moved().Moves(); exactly != 1 || back != 1 || silent != 0 {
		t.Errorf("it went on %d times, %d times further back, %d times without a word", exactly, back, silent)
	}
	cases := []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"it went on beyond what it had done", Gap, func(h *History) { h.Runs[1].First = 42 }},
		{"it is complete and did not do all", Gap, func(h *History) { h.Runs[2].Count = 99 }},
		{"it began in the middle", Gap, func(h *History) { h.Runs[0].First = 2 }},
		{"it did something twice, and nothing explains it", Repeated, func(h *History) {
			h.Requests, h.Faults, h.Runs = nil, nil, h.Runs[1:]
			h.Runs[0].Moved, h.Runs[0].First = false, 1
		}},
		{"it did something twice that may not be requeued", Repeated, func(h *History) { h.Submissions[0].Requeue = false }},
		{"it was moved, and nobody asked for that", Touched, func(h *History) {
			h.Requests, h.Faults = nil, nil
			h.Runs[2].First = 71
		}},
		{"it runs on where it was", Overlap, func(h *History) { h.Runs[0].Last = 106 * second }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := moved()
			c.do(h)
			found := Check(h)
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			for _, violation := range found {
				if violation.Wrong != c.want {
					t.Errorf("found %s", violation)
				}
			}
		})
	}
}

// TestMovedRecord: a process that goes on in other runs goes on with its record.
func TestMovedRecord(t *testing.T) {
	run := Run{Job: 4, Epoch: 2, Name: "x", Node: "n1", NodeList: "n1", Batch: true, Devices: []string{"gpu-10"}, Start: 100}
	text, err := run.Line()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]byte{
		Count(110, 1), Count(120, 2), Moved(200, 3, []string{"gpu-14"}), Count(200, 3), Count(210, 4), Count(120, 3), Moved(200, 3, nil), // about to be written when it was saved
		Moved(300, 5, nil), Count(300, 4), End(310, 0),
	} {
		text = append(text, line...)
	}
	runs, err := ReadRecord(text)
	if err != nil || len(runs) != 3 {
		t.Fatal(len(runs), err)
	}
	for i, want := range []struct {
		epoch        uint32
		first, count int
		start, last  int64
		moved, ended bool
	}{{2, 1, 2, 100, 120, false, false}, {3, 3, 4, 200, 210, true, false}, {5, 4, 4, 300, 310, true, true}} {
		if r := &runs[i]; r.Epoch != want.epoch || r.First != want.first || r.Count != want.count || r.Start != want.start || r.Last != want.last || r.Moved != want.moved || r.Ended != want.ended {
			t.Errorf("run %d: %+v", i, *r)
		}
	}
	if len(runs[0].Devices) != 1 || runs[1].Devices[0] != "gpu-14" || len(runs[2].Devices) != 0 {
		t.Errorf("devices %v, %v, %v", runs[0].Devices, runs[1].Devices, runs[2].Devices)
	}
}

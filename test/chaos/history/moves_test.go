package history

import (
	"fmt"
	"testing"
)

// moved is a good history in which job 20 counts to 100: it was moved after 40, and
// after its node was switched off it continued at 61, having come to 70.
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
	if exactly, back, silent := moved().Moves(); exactly != 1 || back != 1 || silent != 0 || moved().MostMoves() != 0 {
		t.Errorf("it continued %d times, %d times further back, %d times without a word", exactly, back, silent)
	}
	cases := []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"it continued beyond what it had done", Gap, func(h *History) { h.Runs[1].First = 42 }},
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
		{"it has another device elsewhere", "", func(h *History) {
			h.Runs[1].Devices, h.Runs[1].Names, h.Runs[1].Began = []string{"gpu-14"}, []string{"gpu-2"}, []string{"gpu-2"}
		}},
		{"it sees its device under another name", OtherDevices, func(h *History) {
			h.Runs[1].Devices, h.Runs[1].Names, h.Runs[1].Began = []string{"gpu-14"}, []string{"gpu-3"}, []string{"gpu-2"}
		}},
		{"it sees one more", OtherDevices, func(h *History) {
			h.Runs[2].Devices, h.Runs[2].Names = []string{"gpu-14"}, []string{"gpu-3"}
		}},
		{"it sees one that it cannot open", OtherDevices, func(h *History) {
			h.Runs[2].Names, h.Runs[2].Began = []string{"gpu-3"}, []string{"gpu-3"}
		}},
		{"it runs on where it was", Overlap, func(h *History) { h.Runs[0].Last = 106 * second }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := moved()
			c.do(h)
			wantOnly(t, h, c.want)
		})
	}
}

// wantOnly: the checker finds that wrong in h and nothing else; "" is nothing at all.
func wantOnly(t *testing.T, h *History, want Wrong) {
	t.Helper()
	found := Check(h)
	if (len(found) == 0) != (want == "") {
		t.Fatalf("found %v", found)
	}
	for _, violation := range found {
		if violation.Wrong != want {
			t.Errorf("found %s", violation)
		}
	}
}

// endedBefore is a good history in which the script of job 20 came to its end while
// process 1 was stopped. So the job was still running, and it was moved: process 1 told
// the script's end in run 2, of which there is no record.
func endedBefore() *History {
	h := moved()
	h.Runs = h.Runs[:1]
	h.Runs[0].Count, h.Runs[0].Ended = 100, true
	h.Faults = []Fault{{Kind: "stop-ginit", Nodes: []string{"n1"}, From: 102 * second, To: 109 * second}}
	h.Jobs[0].Epoch, h.Jobs[0].Restarts = 2, 1
	return h
}

// TestEndedBeforeItMoved: the end of a script counts, whichever run reports it.
func TestEndedBeforeItMoved(t *testing.T) {
	cases := []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"as it may be", "", func(*History) {}},
		{"its node was switched off, and it resumed from an image", "", func(h *History) {
			h.Requests = nil
			h.Faults = append(h.Faults, Fault{Kind: "power-off", Nodes: []string{"n1"}, Harm: Kills, From: 105 * second, To: 112 * second})
		}},
		{"its script failed", "", func(h *History) {
			h.Runs[0].Code, h.Submissions[0].ExitCode, h.Jobs[0].ExitCode, h.Jobs[0].State = 7, 7, 7, "FAILED"
		}},
		{"nobody moved it", WrongEnd, func(h *History) { h.Requests = nil }},
		{"it is never saved", WrongEnd, func(h *History) { h.Submissions[0].Counts = 0 }},
		{"its script had not ended", WrongEnd, func(h *History) { h.Runs[0].Ended = false }},
		{"its script failed", WrongEnd, func(h *History) { h.Runs[0].Code = 7 }},
		{"it did not do all", Gap, func(h *History) { h.Runs[0].Count = 99 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := endedBefore()
			c.do(h)
			wantOnly(t, h, c.want)
		})
	}
}

// TestMovedRecord: a process that continues in other runs continues with its record.
func TestMovedRecord(t *testing.T) {
	run := Run{Job: 4, Epoch: 2, Name: "x", Node: "n1", NodeList: "n1", Batch: true, Devices: []string{"gpu-10"}, Names: []string{"gpu-2"}, Start: 100}
	text, err := run.Line()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]byte{
		Count(110, 1), Count(120, 2), Moved(200, 3, []string{"gpu-14"}, []string{"gpu-2", "gpu-3"}), Count(200, 3), Count(210, 4), Count(120, 3), Moved(200, 3, nil, nil), // about to be written when it was saved
		Moved(300, 5, nil, []string{"gpu-2"}), Count(300, 4), End(310, 0),
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
	for i, want := range []string{"[gpu-2] [gpu-2]", "[gpu-2 gpu-3] [gpu-2]", "[gpu-2] [gpu-2]"} {
		if got := fmt.Sprint(runs[i].Names, runs[i].Began); got != want {
			t.Errorf("run %d: names %s", i, got)
		}
	}
}

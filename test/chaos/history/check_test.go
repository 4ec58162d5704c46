package history

import (
	"slices"
	"testing"
)

// good is a history in which all is well: one job of each shape, and faults
// that explain what became of them. Times are seconds until good scales them.
func good() *History {
	h := &History{
		Submissions: []Submission{
			{Name: "plain-1", Nodes: 1, Requeue: true, Asked: 1, Answered: 2, Job: 1},
			{Name: "fail-2", Nodes: 1, Requeue: true, ExitCode: 7, Asked: 1, Answered: 2, Job: 2},
			{Name: "gang-3", Nodes: 2, Requeue: true, Asked: 1, Answered: 2, Job: 3},
			{Name: "array-4", Tasks: 2, Nodes: 1, Requeue: true, Asked: 1, Answered: 2, Job: 4},
			{Name: "lent-6", Nodes: 1, Requeue: true, Fence: true, Asked: 1, Answered: 2, Job: 6},
			{Name: "cancel-7", Nodes: 1, Requeue: true, Asked: 1, Answered: 2, Job: 7},
			{Name: "once-8", Nodes: 1, Asked: 1, Answered: 2, Job: 8},
			{Name: "unknown-9", Nodes: 1, Asked: 1}, // its client was killed
			{Name: "limit-10", Nodes: 1, Requeue: true, TimeLimit: 60, Asked: 1, Answered: 2, Job: 10},
		},
		Requests: []Request{{Verb: Cancel, Job: 7, Asked: 110}},
		Runs: []Run{
			{Job: 1, Name: "plain-1", Epoch: 1, Batch: true, Node: "n1", Devices: []string{"gpu0"}, Names: []string{"gpu-1"}, Start: 100, Last: 110, Ended: true},
			{Job: 2, Name: "fail-2", Epoch: 1, Batch: true, Node: "n1", Devices: []string{"gpu0"}, Names: []string{"gpu-1"}, Start: 120, Last: 130, Ended: true, Code: 7},
			{Job: 3, Name: "gang-3", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1", "n2"}, Start: 100, Last: 110, Ended: true},
			{Job: 3, Name: "gang-3", Epoch: 1, Node: "n1", Nodes: []string{"n1", "n2"}, Start: 101, Last: 109, Ended: true},
			{Job: 3, Name: "gang-3", Epoch: 1, Node: "n2", Nodes: []string{"n1", "n2"}, Task: 1, Start: 101, Last: 109, Ended: true},
			{Job: 4, Array: 4, Index: 0, Name: "array-4", Epoch: 1, Batch: true, Node: "n1", Start: 100, Last: 110, Ended: true},
			{Job: 5, Array: 4, Index: 1, Name: "array-4", Epoch: 1, Batch: true, Node: "n1", Start: 100, Last: 110, Ended: true},
			{Job: 6, Name: "lent-6", Epoch: 1, Batch: true, Node: "n3", Devices: []string{"gpu9"}, Names: []string{"gpu-1"}, Start: 100, Last: 160},
			{Job: 6, Name: "lent-6", Epoch: 2, Restarts: 1, Batch: true, Node: "n1", Start: 180, Last: 190, Ended: true},
			{Job: 7, Name: "cancel-7", Epoch: 1, Batch: true, Node: "n1", Start: 100, Last: 111, Term: true, Ended: true, Code: 143},
			{Job: 8, Name: "once-8", Epoch: 1, Batch: true, Node: "n4", Start: 300, Last: 310},
			{Job: 10, Name: "limit-10", Epoch: 1, Batch: true, Node: "n1", Start: 400, Last: 461},
		},
		Faults: []Fault{
			{Kind: "cut-node", Nodes: []string{"n3"}, Harm: Silences, From: 158, To: 185},
			{Kind: "power-off", Nodes: []string{"n4"}, Harm: Kills, From: 310, To: 320},
		},
		Jobs: []Job{
			{ID: 1, Index: -1, Name: "plain-1", State: "COMPLETED", Epoch: 1},
			{ID: 2, Index: -1, Name: "fail-2", State: "FAILED", Epoch: 1, ExitCode: 7},
			{ID: 3, Index: -1, Name: "gang-3", State: "COMPLETED", Epoch: 1},
			{ID: 4, Array: 4, Index: 0, Name: "array-4", State: "COMPLETED", Epoch: 1},
			{ID: 5, Array: 4, Index: 1, Name: "array-4", State: "COMPLETED", Epoch: 1},
			{ID: 6, Index: -1, Name: "lent-6", State: "COMPLETED", Epoch: 2, Restarts: 1},
			{ID: 7, Index: -1, Name: "cancel-7", State: "CANCELLED", Epoch: 1},
			{ID: 8, Index: -1, Name: "once-8", State: "NODE_FAIL", Epoch: 1},
			{ID: 10, Index: -1, Name: "limit-10", State: "TIMEOUT", Epoch: 1},
		},
		Nodes: []Node{{Name: "n1", State: "IDLE"}, {Name: "n2", State: "IDLE"}},
	}
	for i := range h.Submissions {
		h.Submissions[i].Asked *= second
		h.Submissions[i].Answered *= second
		h.Submissions[i].TimeLimit *= second
	}
	for i := range h.Requests {
		h.Requests[i].Asked *= second
	}
	for i := range h.Runs {
		run := &h.Runs[i]
		run.Start, run.Last = run.Start*second, run.Last*second
		if run.Nodes == nil {
			run.Nodes = []string{run.Node}
		}
	}
	for i := range h.Faults {
		h.Faults[i].From *= second
		h.Faults[i].To *= second
	}
	return h
}

func TestGoodHistory(t *testing.T) {
	for _, violation := range Check(good()) {
		t.Error(violation)
	}
}

// job, run and submission are those of good with that number and epoch.
func (h *History) job(id uint32) *Job {
	return &h.Jobs[slices.IndexFunc(h.Jobs, func(j Job) bool { return j.ID == id })]
}

func (h *History) run(id, epoch uint32) *Run {
	return &h.Runs[slices.IndexFunc(h.Runs, func(r Run) bool { return r.Job == id && r.Epoch == epoch })]
}

func (h *History) submission(id uint32) *Submission {
	return &h.Submissions[slices.IndexFunc(h.Submissions, func(s Submission) bool { return s.Job == id })]
}

func (h *History) dropJob(id uint32) {
	h.Jobs = slices.DeleteFunc(h.Jobs, func(j Job) bool { return j.ID == id })
}

func (h *History) dropRuns(drop func(Run) bool) { h.Runs = slices.DeleteFunc(h.Runs, drop) }

// TestEachViolation: each history differs from the good one in one thing, and
// that is what is found.
func TestEachViolation(t *testing.T) {
	cases := []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"an accepted job is gone", Lost, func(h *History) {
			h.dropJob(1)
			h.dropRuns(func(r Run) bool { return r.Job == 1 })
		}},
		{"a task of an array is gone", Lost, func(h *History) {
			h.dropJob(5)
			h.dropRuns(func(r Run) bool { return r.Job == 5 })
		}},
		{"one submission made two jobs", Doubled, func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: 11, Index: -1, Name: "held-11", State: "CANCELLED"})
			h.Jobs[len(h.Jobs)-1].Name = "cancel-7"
			h.Requests = append(h.Requests, Request{Verb: Cancel, Job: 11, Asked: 110 * second})
		}},
		{"a task of an array is there twice", Doubled, func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: 11, Array: 4, Index: 1, Name: "array-4", State: "CANCELLED"})
			h.Requests = append(h.Requests, Request{Verb: Cancel, Job: 4, Asked: 110 * second})
		}},
		{"a job is there that nobody submitted", NotAccepted, func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: 11, Index: -1, Name: "stranger", State: "COMPLETED"})
		}},
		{"a job is there that was refused", NotAccepted, func(h *History) {
			h.Submissions = append(h.Submissions, Submission{Name: "bad-12", Refused: true})
			h.Jobs = append(h.Jobs, Job{ID: 12, Index: -1, Name: "bad-12", State: "COMPLETED"})
		}},
		{"a job ran that is not in the list", NotAccepted, func(h *History) {
			h.Runs = append(h.Runs, Run{Job: 77, Epoch: 1, Batch: true, Node: "n1", Start: second, Last: 2 * second})
		}},
		{"a job ran under a number that is another's", NotAccepted, func(h *History) { h.run(2, 1).Name = "gone-2" }},
		{"a run that the list does not know", NotAccepted, func(h *History) {
			h.job(6).Epoch = 1
			h.job(6).State = "CANCELLED"
			h.Requests = append(h.Requests, Request{Verb: Cancel, Job: 6, Asked: 170 * second})
		}},
		{"two runs overlap", Overlap, func(h *History) {
			h.run(6, 1).Last = 185 * second
			h.Faults[0].To = 190 * second
		}},
		{"a frozen run lived on after its successor had ended", Overlap, func(h *History) { h.run(6, 1).Last = 195 * second }},
		{"one run was started twice", Overlap, func(h *History) {
			twin := *h.run(1, 1)
			twin.Devices, twin.Names = nil, nil
			twin.Start, twin.Last = 111*second, 112*second
			h.Runs = append(h.Runs, twin)
		}},
		{"a device was given twice", DeviceTwice, func(h *History) { h.run(2, 1).Start = 105 * second }},
		{"a device was held inside another's time", DeviceTwice, func(h *History) {
			h.run(1, 1).Devices, h.run(1, 1).Names = nil, nil
			h.run(6, 1).Devices = []string{"gpu0"}
		}},
		{"a gang ran with one node", PartialGang, func(h *History) { h.run(3, 1).Nodes = []string{"n1"} }},
		{"a complete gang ran on one node only", PartialGang, func(h *History) {
			h.dropRuns(func(r Run) bool { return r.Job == 3 && r.Node == "n2" })
		}},
		{"a job ran again that may not", BadRequeue, func(h *History) { h.submission(6).Requeue = false }},
		{"a job ran again, and no fault explains it", Touched, func(h *History) { h.Faults[0].Nodes = []string{"n2"} }},
		{"a job that runs on was requeued after a cut", Touched, func(h *History) { h.submission(6).Fence = false }},
		{"a node failed a job, and no fault explains it", Touched, func(h *History) { h.Faults[1].Harm = Harmless }},
		{"complete without an end", WrongEnd, func(h *History) { h.run(1, 1).Ended = false }},
		{"complete after a failure", WrongEnd, func(h *History) { h.run(1, 1).Code = 3 }},
		{"complete without a run", WrongEnd, func(h *History) { h.dropRuns(func(r Run) bool { return r.Job == 1 }) }},
		{"failed with another code", WrongEnd, func(h *History) { h.job(2).ExitCode = 8 }},
		{"failed as it was not to", WrongEnd, func(h *History) { h.submission(2).ExitCode = 0 }},
		{"failed without a run", WrongEnd, func(h *History) { h.dropRuns(func(r Run) bool { return r.Job == 2 }) }},
		{"failed without an end", WrongEnd, func(h *History) { h.run(2, 1).Ended = false }},
		{"failed, and nothing killed it", WrongEnd, func(h *History) {
			h.job(2).ExitCode, h.job(2).Signal = 0, 9
			h.run(2, 1).Ended = false
		}},
		{"cancelled by nobody", WrongEnd, func(h *History) { h.Requests = nil }},
		{"timed out too early", WrongEnd, func(h *History) { h.run(10, 1).Last = 420 * second }},
		{"timed out without a limit", WrongEnd, func(h *History) { h.submission(10).TimeLimit = 0 }},
		{"failed by its node though to be requeued", WrongEnd, func(h *History) { h.submission(8).Requeue = true }},
		{"an end that no job has", WrongEnd, func(h *History) { h.job(1).State = "OUT_OF_MEMORY" }},
		{"still running", NotEnded, func(h *History) { h.job(1).State = "RUNNING" }},
		{"still cleaning up", NotEnded, func(h *History) { h.job(1).Completing = true }},
		{"tasks still waiting", NotEnded, func(h *History) { h.job(4).Waiting = "3" }},
		{"a node is not idle", NodeNotFree, func(h *History) { h.Nodes[0].State = "MIXED" }},
		{"a device is not free", NodeNotFree, func(h *History) { h.Nodes[0].BusyDevices = []string{"gpu0"} }},
		{"a node tells of what is left", LeftBehind, func(h *History) { h.Nodes[0].LeftOvers = []string{"/x"} }},
		{"a host has something left", LeftBehind, func(h *History) { h.Left = []string{"process 1"} }},
	}
	covered := map[Wrong]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.do(h)
			found := Check(h)
			if len(found) != 1 || found[0].Wrong != c.want {
				t.Errorf("found %v, want one %q", found, c.want)
			}
			covered[c.want] = true
		})
	}
	for _, wrong := range []Wrong{Lost, Doubled, NotAccepted, Overlap, DeviceTwice, PartialGang, BadRequeue, WrongEnd, NotEnded, Touched, NodeNotFree, LeftBehind} {
		if !covered[wrong] {
			t.Errorf("no case for %q", wrong)
		}
	}
}

// TestAllowed: what looks odd and is not wrong.
func TestAllowed(t *testing.T) {
	cases := []struct {
		name string
		do   func(h *History)
	}{
		{"a client that was killed got its job all the same", func(h *History) {
			h.Jobs = append(h.Jobs, Job{ID: 9, Index: -1, Name: "unknown-9", State: "COMPLETED", Epoch: 1})
			h.Runs = append(h.Runs, Run{Job: 9, Name: "unknown-9", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1"}, Start: second, Last: 2 * second, Ended: true})
		}},
		{"a job that may not requeue was requeued by its user", func(h *History) {
			h.submission(6).Requeue = false
			h.Requests = append(h.Requests, Request{Verb: Requeue, Job: 6, Asked: 150 * second})
		}},
		{"a requeue was under way when the run began that it ended", func(h *History) {
			h.Faults[0].Nodes = []string{"n2"}
			run := h.run(6, 1)
			h.Requests = append(h.Requests, Request{Verb: Requeue, Job: 6, Asked: run.Start - 1, Over: run.Start + 1})
		}},
		{"a job waited long between two runs", func(h *History) {
			h.run(6, 2).Start, h.run(6, 2).Last = 900*second, 910*second
		}},
		{"an array was cancelled as a whole", func(h *History) {
			h.job(5).State = "CANCELLED"
			h.Requests = append(h.Requests, Request{Verb: Cancel, Job: 4, Asked: 105 * second})
		}},
		{"a gang's step broke in bad weather", func(h *History) {
			h.job(3).State, h.job(3).ExitCode, h.run(3, 1).Code = "FAILED", 1, 1
			h.Faults = append(h.Faults, Fault{Kind: "kill-leader", Everywhere: true, From: 105 * second, To: 105 * second})
		}},
		{"a script was killed with its process 1", func(h *History) {
			h.job(2).State, h.job(2).ExitCode, h.job(2).Signal = "FAILED", 0, 9
			h.run(2, 1).Ended = false
			h.Faults = append(h.Faults, Fault{Kind: "kill-ginit", Nodes: []string{"n1"}, Harm: Kills, From: 125 * second, To: 125 * second})
		}},
		{"a script was killed before its first line", func(h *History) {
			h.job(2).ExitCode, h.job(2).Signal, h.job(2).Nodes = 0, 9, []string{"n1"}
			h.dropRuns(func(r Run) bool { return r.Job == 2 })
			h.Faults = append(h.Faults, Fault{Kind: "kill-ginit", Nodes: []string{"n1"}, Harm: Kills, From: 119 * second, To: 119 * second})
		}},
		{"a script was killed after its last line", func(h *History) {
			h.job(2).ExitCode, h.job(2).Signal = 0, 9
			h.Faults = append(h.Faults, Fault{Kind: "kill-ginit", Nodes: []string{"n1"}, Harm: Kills, From: 130 * second, To: 130 * second})
		}},
		{"it was cancelled before it ran", func(h *History) { h.dropRuns(func(r Run) bool { return r.Job == 7 }) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.do(h)
			if found := Check(h); len(found) > 0 {
				t.Errorf("found %v", found)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	run := Run{Job: 4, Epoch: 2, Name: "x", Node: "n1", NodeList: "n1", Batch: true, Devices: []string{"gpu0"}, Names: []string{"gpu-1"}, Start: 100}
	line, err := run.Line()
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(line, Beat(110), Term(115), End(120, 3))
	runs, err := ReadRecord(text)
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	if read := &runs[0]; read.Job != 4 || read.Epoch != 2 || read.Last != 120 || read.Beats != 1 || !read.Term || !read.Ended || read.Code != 3 {
		t.Errorf("read %+v", read)
	}
	// Killed in the middle of a line, at every place.
	for length := range text {
		runs, err := ReadRecord(text[:length])
		if err != nil || len(runs) > 1 || (len(runs) == 1) != (length >= len(line)) || len(runs) == 1 && runs[0].Ended {
			t.Fatalf("cut to %d bytes: %+v, %v", length, runs, err)
		}
	}
	for _, bad := range []string{"x\n", "{}\nbeat\n", "{}\nbeat x\n", "{}\nnap 3\n", "{}\nend 3\n", "{}\nend 3 0\nbeat 4\n", "{}\nmoved 3\n", "{}\nmoved 3 0\n", "{}\nmoved 3 x n m\n", "{}\nmoved 3 1 n\n", "{}\ncount 3 1\ncount 4 3\n"} {
		if _, err := ReadRecord([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestEndedAndMoved: a process may have ended on a node that was lost before that was
// heard, and then resumes elsewhere from an image; in the same run it may not.
func TestEndedAndMoved(t *testing.T) {
	runs, err := ReadRecord([]byte("{\"epoch\":2}\ncount 1 1\nend 2 0\nmoved 3 3 \ncount 4 1\nend 5 7\n"))
	if err != nil || len(runs) != 2 || !runs[0].Ended || !runs[1].Ended || runs[1].Code != 7 || runs[1].Epoch != 3 {
		t.Errorf("read %+v, %v", runs, err)
	}
	if runs, err := ReadRecord([]byte("{\"epoch\":2}\nend 2 0\nmoved 2 2 \n")); err == nil {
		t.Errorf("read %+v", runs)
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add([]byte("{\"job\":1}\nbeat 1\nend 2 0\n"))
	f.Add([]byte("{\"job\":1}\ncount 1 1\nmoved 2 3 gpu0 gpu-1\ncount 2 2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		runs, err := ReadRecord(text)
		if err != nil && len(runs) > 0 {
			t.Error("both read and not")
		}
		for i := range runs {
			if runs[i].Last < runs[i].Start || i > 0 && (!runs[i].Moved || runs[i].Epoch <= runs[i-1].Epoch) {
				t.Errorf("a run that cannot be: %+v", runs[i])
			}
		}
	})
}

package history

import "testing"

// waiting is a history of jobs that wait for each other, for licenses and for
// room, in which all is well.
func waiting() *History {
	h := &History{
		Licenses: 3,
		Submissions: []Submission{
			{Name: "parent-1", Nodes: 1, Requeue: true, Job: 1},
			{Name: "chain-2", Nodes: 1, Requeue: true, Job: 2, After: AfterOK, Parent: 1},
			{Name: "fail-3", Nodes: 1, Requeue: true, Job: 3, ExitCode: 7},
			{Name: "chain-4", Nodes: 1, Requeue: true, Job: 4, After: AfterOK, Parent: 3},
			{Name: "chain-5", Nodes: 1, Requeue: true, Job: 5, After: AfterNotOK, Parent: 3},
			{Name: "array-6", Tasks: 2, Nodes: 1, Requeue: true, Job: 6, Throttle: 1},
			{Name: "chain-8", Tasks: 2, Nodes: 1, Requeue: true, Job: 8, After: AfterCorr, Parent: 6},
			{Name: "licensed-10", Nodes: 1, Requeue: true, Job: 10, Licenses: 2},
			{Name: "licensed-11", Nodes: 1, Requeue: true, Job: 11, Licenses: 2},
			{Name: "urgent-12", Nodes: 1, Requeue: true, Job: 12, Urgent: true, Asked: 205},
			{Name: "short-13", Nodes: 1, Requeue: true, Job: 13},
			{Name: "once-14", Nodes: 1, Job: 14},
		},
		Runs: []Run{
			{Job: 1, Name: "parent-1", Start: 10, Last: 20, Ended: true},
			{Job: 2, Name: "chain-2", Start: 21, Last: 25, Ended: true},
			{Job: 3, Name: "fail-3", Start: 10, Last: 20, Ended: true, Code: 7},
			{Job: 5, Name: "chain-5", Start: 30, Last: 35, Ended: true},
			{Job: 6, Array: 6, Index: 0, Name: "array-6", Start: 40, Last: 45, Ended: true},
			{Job: 7, Array: 6, Index: 1, Name: "array-6", Start: 50, Last: 55, Ended: true},
			{Job: 8, Array: 8, Index: 0, Name: "chain-8", Start: 47, Last: 49, Ended: true},
			{Job: 9, Array: 8, Index: 1, Name: "chain-8", Start: 57, Last: 59, Ended: true},
			{Job: 10, Name: "licensed-10", Start: 10, Last: 20, Ended: true},
			{Job: 11, Name: "licensed-11", Start: 21, Last: 30, Ended: true},
			{Job: 12, Name: "urgent-12", Start: 212, Last: 220, Ended: true},
			{Job: 13, Name: "short-13", Start: 200, Last: 210, Term: true},
			{Job: 13, Epoch: 2, Name: "short-13", Start: 230, Last: 240, Ended: true},
			{Job: 14, Name: "once-14", Start: 200, Last: 210, Term: true},
		},
		Jobs: []Job{
			{ID: 1, Index: -1, Name: "parent-1", State: "COMPLETED"},
			{ID: 2, Index: -1, Name: "chain-2", State: "COMPLETED"},
			{ID: 3, Index: -1, Name: "fail-3", State: "FAILED", ExitCode: 7},
			{ID: 4, Index: -1, Name: "chain-4", State: "CANCELLED", Reason: neverSatisfied},
			{ID: 5, Index: -1, Name: "chain-5", State: "COMPLETED"},
			{ID: 6, Array: 6, Index: 0, Name: "array-6", State: "COMPLETED"},
			{ID: 7, Array: 6, Index: 1, Name: "array-6", State: "COMPLETED"},
			{ID: 8, Array: 8, Index: 0, Name: "chain-8", State: "COMPLETED"},
			{ID: 9, Array: 8, Index: 1, Name: "chain-8", State: "COMPLETED"},
			{ID: 10, Index: -1, Name: "licensed-10", State: "COMPLETED"},
			{ID: 11, Index: -1, Name: "licensed-11", State: "COMPLETED"},
			{ID: 12, Index: -1, Name: "urgent-12", State: "COMPLETED"},
			{ID: 13, Index: -1, Name: "short-13", State: "COMPLETED", Epoch: 2},
			{ID: 14, Index: -1, Name: "once-14", State: "PREEMPTED"},
		},
	}
	for i := range h.Submissions {
		h.Submissions[i].Asked *= second
	}
	for i := range h.Runs {
		run := &h.Runs[i]
		run.Batch, run.Node, run.Nodes, run.Epoch = true, "n1", []string{"n1"}, max(run.Epoch, 1)
		run.Start, run.Last = run.Start*second, run.Last*second
	}
	for i := range h.Jobs {
		if job := &h.Jobs[i]; job.Reason != neverSatisfied {
			job.Epoch = max(job.Epoch, 1)
		}
	}
	return h
}

func TestWaitingHistory(t *testing.T) {
	for _, violation := range Check(waiting()) {
		t.Error(violation)
	}
}

// TestEachWaitViolation: each history differs from the good one in one thing,
// and that is what is found.
func TestEachWaitViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"afterok began before the end", TooEarly, func(h *History) { h.run(2, 1).Start = 19 * second }},
		{"afterok began before the end of a second run", TooEarly, func(h *History) {
			again := *h.run(1, 1)
			again.Epoch, again.Start, again.Last = 2, 30*second, 31*second
			h.run(1, 1).Ended = false
			h.Runs = append(h.Runs, again)
			h.job(1).Epoch = 2
			h.Faults = []Fault{{Kind: "power-off", Nodes: []string{"n1"}, Harm: Kills, From: 20 * second, To: 21 * second}}
		}},
		{"afterok ran after a failure", TooEarly, func(h *History) {
			h.Runs = append(h.Runs, Run{Job: 4, Name: "chain-4", Epoch: 1, Batch: true, Node: "n1", Nodes: []string{"n1"}, Start: 30 * second, Last: 31 * second, Ended: true})
			h.job(4).State, h.job(4).Reason, h.job(4).Epoch = "COMPLETED", "None", 1
		}},
		{"afternotok ran after a good end", TooEarly, func(h *History) { h.submission(5).Parent = 1 }},
		{"aftercorr began before its task's end", TooEarly, func(h *History) { h.run(9, 1).Start = 54 * second }},
		{"cancelled though it could still be", WrongEnd, func(h *History) { h.submission(4).Parent = 1 }},
		{"cancelled though it waited for nothing", WrongEnd, func(h *History) { h.submission(4).After = "" }},
		{"more licenses than there are", LimitPassed, func(h *History) { h.run(11, 1).Start = 19 * second }},
		{"more tasks than the throttle lets", LimitPassed, func(h *History) { h.run(7, 1).Start = 44 * second }},
		{"nobody waited for the room", Touched, func(h *History) {
			h.submission(12).Urgent = false
			h.job(14).State = "CANCELLED"
			h.Requests = []Request{{Verb: Cancel, Job: 14, Asked: 205 * second}}
		}},
		{"killed without a word, and no fault", Touched, func(h *History) { h.run(13, 1).Term = false }},
		{"preempted though it could wait again", WrongEnd, func(h *History) { h.submission(14).Requeue = true }},
		{"preempted for nobody", WrongEnd, func(h *History) { h.run(14, 1).Last = 100 * second; h.run(14, 1).Start = 90 * second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := waiting()
			c.do(h)
			if found := Check(h); len(found) != 1 || found[0].Wrong != c.want {
				t.Errorf("found %v, want one %q", found, c.want)
			}
		})
	}
}

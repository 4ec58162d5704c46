package history

import (
	"slices"
	"testing"
)

// kept is the good history with three controllers, whose databases have all of it.
func kept() *History {
	h := good()
	var runs []PastRun
	for _, job := range h.Jobs {
		for restarts := range job.Restarts {
			runs = append(runs, PastRun{Job: job.ID, Restarts: restarts, Epoch: restarts + 1, Requeued: true, State: "NODE_FAIL"})
		}
		runs = append(runs, PastRun{Job: job.ID, Restarts: job.Restarts, Epoch: job.Epoch, State: job.State, ExitCode: job.ExitCode, Signal: job.Signal})
	}
	for _, name := range []string{"c1", "c2", "c3"} {
		h.Databases = append(h.Databases, Database{Controller: name, Runs: slices.Clone(runs)})
	}
	return h
}

// TestPastRuns: whatever one database lacks, or has otherwise, is found.
func TestPastRuns(t *testing.T) {
	// last is the end of job 6, which was requeued once, in the second database.
	last := func(h *History) (*Database, int) {
		d := &h.Databases[1]
		return d, slices.IndexFunc(d.Runs, func(r PastRun) bool { return r.Job == 6 && !r.Requeued })
	}
	cases := []struct {
		name string
		want Wrong
		do   func(h *History)
	}{
		{"as it should be", "", func(*History) {}},
		{"an end is missing", HistoryLost, func(h *History) {
			d, at := last(h)
			d.Runs = slices.Delete(d.Runs, at, at+1)
		}},
		{"a run that was requeued is missing", HistoryLost, func(h *History) {
			d, at := last(h)
			d.Runs = slices.Delete(d.Runs, at-1, at)
		}},
		{"a database is empty", HistoryLost, func(h *History) { h.Databases[2].Runs = nil }},
		{"an end is there twice", HistoryDoubled, func(h *History) {
			d, at := last(h)
			d.Runs = append(d.Runs, d.Runs[at])
		}},
		{"a run that was requeued is there twice", HistoryDoubled, func(h *History) {
			d, at := last(h)
			d.Runs = append(d.Runs, d.Runs[at-1])
		}},
		{"another state", HistoryWrong, func(h *History) { d, at := last(h); d.Runs[at].State = "FAILED" }},
		{"another exit code", HistoryWrong, func(h *History) { d, at := last(h); d.Runs[at].ExitCode = 1 }},
		{"another signal", HistoryWrong, func(h *History) { d, at := last(h); d.Runs[at].Signal = 9 }},
		{"another run", HistoryWrong, func(h *History) { d, at := last(h); d.Runs[at].Epoch = 1 }},
		{"an end that is none", HistoryWrong, func(h *History) { d, at := last(h); d.Runs[at].Requeued = true }},
		{"a run too many", HistoryWrong, func(h *History) {
			d, at := last(h)
			d.Runs = append(d.Runs, PastRun{Job: 6, Restarts: d.Runs[at].Restarts + 1, State: "COMPLETED"})
		}},
		{"a job that nobody knows", HistoryWrong, func(h *History) {
			d, _ := last(h)
			d.Runs = append(d.Runs, PastRun{Job: 77, State: "COMPLETED"})
		}},
		{"a job that is not over", NotEnded, func(h *History) {
			h.job(6).State = "RUNNING"
			for i := range h.Databases {
				h.Databases[i].Runs = slices.DeleteFunc(h.Databases[i].Runs, func(r PastRun) bool { return r.Job == 6 && !r.Requeued })
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := kept()
			c.do(h)
			wantOnly(t, h, c.want)
		})
	}
}

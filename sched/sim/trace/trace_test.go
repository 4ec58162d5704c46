package trace

import (
	"errors"
	"strings"
	"testing"
)

const swf = "7 %s -1 100 4 -1 -1 4 60 -1 1 3 5 -1 -1 -1 -1 -1"

// TestBrokenTraces: what is wrong is refused with its line and the reason.
func TestBrokenTraces(t *testing.T) {
	good := strings.Replace(swf, "%s", "10", 1)
	for _, c := range []struct{ trace, want string }{
		{"", ErrEmpty.Error()},
		{"; only a comment\n", ErrEmpty.Error()},
		{"1 2 3\n", "line 1: it has 3 fields and not 18"},
		{"job_id;submit;run\n1;0;10\n", "line 1: it has 1 field and not 18; the first line of CSV names its columns"},
		{"; head\n\n" + strings.Replace(swf, "%s", "soon", 1), `line 3: field 2: "soon" is no number`},
		{good + "\n" + good, "line 2: job 7 is on line 1 already"},
		{strings.Replace(good, "7", "-7", 1), "line 1: -7 is no job number"},
		{strings.Replace(swf, "%s", "-10", 1), "line 1: the job is submitted at -10"},
		{strings.Replace(swf, "%s", "99999999999999999999", 1), "too large"},
		{strings.Replace(swf, "%s", "1e300", 1), "too large"},
		{strings.Replace(swf, "%s", "NaN", 1), "no number"},
		{strings.Replace(good, " 100 ", " 99999999999999 ", 1), "too long"},
		{strings.Replace(good, " 4 -1 -1", " 99999999999 -1 -1", 1), "too many"},
		{strings.Repeat("x", maxLine+1), "line 1: it has more than"},
		{"job_id,run\n1,2\n", "line 1: there is no column submit"},
		{"job_id,submit,run\n1,2\n", "line 2: it has 2 fields and not 3"},
		{"job_id,submit,run\n1,2,long\n", `line 2: field 3: "long" is no number`},
		{"job_id,submit,run,time_min\n1,2,30,31\n", "line 2: its time_min of 31 seconds is more than its time limit of 30"},
		{"job_id,submit,run\n1,\"2,3\n", "line 2: it is not CSV"},
	} {
		_, err := Read(strings.NewReader(c.trace))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v, want %s", c.trace, err, c.want)
		}
		var line *LineError
		var lines LineErrors
		if err != nil && !errors.Is(err, ErrEmpty) && !errors.As(err, &line) && !errors.As(err, &lines) {
			t.Errorf("%.60q: %v names no line", c.trace, err)
		}
	}
}

// TestRead: what a scheduler would have seen of recorded jobs.
func TestRead(t *testing.T) {
	jobs, err := Read(strings.NewReader("; head\n" +
		"3 20 -1 100 4 -1 -1 4 60 -1 1 3 5 -1 -1 -1 -1 -1\n" + // ran longer than it asked for
		"2 10 -1 12.7 4 -1 -1 4 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\r\n" + // asked for nothing
		"1 20 -1 -1 4 -1 -1 4 60 -1 1 3 5 -1 -1 -1 -1 -1\n" + // never ran
		"4 30 -1 40 -1 -1 -1 6 60 -1 1 3 5 -1 -1 -1 -1 -1\n")) // of which only is known what it asked for
	want := []Job{{2, 10, 12, 12, 4, "", "", nil, 0}, {1, 20, 1, 1, 4, "3", "5", nil, 0}, {3, 20, 60, 100, 4, "3", "5", nil, 0}, {4, 30, 40, 60, 6, "3", "5", nil, 0}}
	if err != nil || len(jobs) != len(want) {
		t.Fatalf("%+v, %v", jobs, err)
	}
	for i := range want {
		if jobs[i] != want[i] {
			t.Errorf("job %+v, want %+v", jobs[i], want[i])
		}
	}
	jobs, err = Read(strings.NewReader("\uFEFFjob_id,submit_s,duration_s,gpus,user,vc\n5, 7,100,8,ann,vision\n"))
	if err != nil || len(jobs) != 1 || jobs[0] != (Job{5, 7, 100, 100, 8, "ann", "vision", nil, 0}) {
		t.Errorf("CSV: %+v, %v", jobs, err)
	}
	jobs, err = Read(strings.NewReader("job_id,submit,run,est,time_min\n5,7,100,200,60\n"))
	if err != nil || len(jobs) != 1 || jobs[0] != (Job{5, 7, 100, 200, 1, "", "", nil, 60}) {
		t.Errorf("CSV: %+v, %v", jobs, err)
	}
}

// FuzzRead: no bytes make it panic, and what it returns can be replayed.
func FuzzRead(f *testing.F) {
	f.Add([]byte(strings.Replace(swf, "%s", "10", 1)))
	f.Add([]byte("job_id,submit,run\n1,2,3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for i, job := range jobs {
			if job.RunS < 1 || job.RunS > job.EstimateS || job.Processors < 1 || job.SubmitS < 0 || i > 0 && jobs[i-1].SubmitS > job.SubmitS {
				t.Fatalf("job %+v", job)
			}
		}
	})
}

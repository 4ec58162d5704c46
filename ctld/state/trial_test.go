package state

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched"
)

// TestTriedCommandsComeTrue: what a View says would be after a command is what is when the
// command is applied, and the View itself stays as it was.
func TestTriedCommandsComeTrue(t *testing.T) {
	tried := map[Kind]int{}
	for seed := range int64(4) {
		w, s := newWalker(seed), New()
		w.shares = true
		now, index := int64(1_000_000), uint64(0)
		for range 400 {
			command := w.next(s.View())
			now, index = now+100, index+1
			view := s.View()
			if jobs, is := triable(view, command); is {
				before := view.SchedSnapshot(now)
				after, would := view.Try(command, now, jobs...)
				if !reflect.DeepEqual(before, view.SchedSnapshot(now)) {
					t.Fatalf("seed %d, entry %d: trying %T has changed the state", seed, index, command)
				}
				result := mustApply(t, s, index, mustEncode(t, command, now))
				tried[result.Kind]++
				if fmt.Sprint(would.Refused, would.JobID, would.Jobs) != fmt.Sprint(result.Refused, result.JobID, result.Jobs) {
					t.Fatalf("seed %d, entry %d: %T would answer %v %v %v, and answers %v %v %v", seed, index, command, would.Refused, would.JobID, would.Jobs, result.Refused, result.JobID, result.Jobs)
				}
				have, _ := sched.Schedule(after.SchedSnapshot(now), sched.Memo{})
				want, _ := sched.Schedule(s.View().SchedSnapshot(now), sched.Memo{})
				if !reflect.DeepEqual(have, want) {
					t.Fatalf("seed %d, entry %d: after %T\n%+v would be planned, and is\n%+v", seed, index, command, have, want)
				}
				continue
			}
			mustApply(t, s, index, mustEncode(t, command, now))
		}
	}
	t.Logf("tried %v", tried)
	for _, kind := range []Kind{KindSubmitJob, KindUpdateJobs, KindReleaseJobs} {
		if tried[kind] < 5 {
			t.Errorf("%s was tried %d times: the walk is too tame", kind, tried[kind])
		}
	}
}

// triable reports whether a command is tried here, and the jobs that it is about.
func triable(view *View, command Command) ([]*Job, bool) {
	var targets []Target
	switch c := command.(type) {
	case SubmitJob:
		return nil, true
	case UpdateJobs:
		targets = c.Targets
	case ReleaseJobs:
		targets = c.Targets
	}
	if len(targets) != 1 || len(targets[0].Tasks) > 0 {
		return nil, false
	}
	job, known := view.Job(targets[0].Job)
	return []*Job{job}, known && job.Array == 0
}

func mustEncode(t *testing.T, command Command, nowMS int64) []byte {
	t.Helper()
	entry, err := Encode(command, RequestID{}, nowMS)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

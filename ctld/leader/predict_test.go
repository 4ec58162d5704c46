package leader

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// TestPlansByPredictions: jobs are planned for what their user's last two ran, until that is
// over; then for longer, in a pass that comes by itself. Their limits stay, and another
// leader predicts the same.
func TestPlansByPredictions(t *testing.T) {
	for _, kind := range []string{policy.PredictRecentTwo, policy.PredictLearned} {
		synctest.Test(t, func(t *testing.T) {
			l, b := begin(t)
			connect(t, l, b, "n1")
			site := *b.View().Policy()
			site.Scheduler = policy.SchedulerFromMessage(&pb.SchedulerPolicy{Type: "backfill", BfJobPartCountReserve: 10, BfMaxJobArrayResv: 1, ReplayRuns: 10, Predict: kind})
			b.must(t, state.ApplyPolicy{Policy: site})
			start := func() uint32 {
				id := submitSpec(t, b, &pb.JobSpec{TimeLimitS: 36000, CpusPerTask: 8})
				plan(t, l)
				b.must(t, state.AllocsReady{Allocs: []state.AllocRef{{Job: id, Epoch: 1, Node: "n1"}}})
				return id
			}
			for _, ranS := range []time.Duration{100, 140} {
				id := start()
				time.Sleep(ranS * time.Second)
				b.must(t, state.AllocsEnded{Reports: []state.AllocReport{{Job: id, Epoch: 1, Node: "n1", Cause: pb.EndCause_END_CAUSE_EXITED}}})
			}
			time.Sleep(learnS * time.Second)
			start()
			waits := submitSpec(t, b, &pb.JobSpec{TimeLimitS: 36000, CpusPerTask: 8})
			behind := submitSpec(t, b, &pb.JobSpec{TimeLimitS: 36000, CpusPerTask: 8})
			before := l.Snapshot(b.View(), time.Now())
			runs := before.Running[0]
			plannedS := (runs.PlannedEndMS - runs.StartMS) / 1000
			if shape := before.Shapes[before.Waiting[0].Shape]; int64(shape.PlannedS) != plannedS || shape.TimeLimitS != 36000 || runs.TimeLimitS != 36000 {
				t.Errorf("%s: %+v is planned, and %+v runs", kind, shape, runs)
			}
			if kind == policy.PredictRecentTwo && plannedS != 128 { // 120, in three binary digits
				t.Errorf("it is planned for %d seconds", plannedS)
			}
			plan(t, l)
			if due := l.NextPass(); due.UnixMilli() != runs.PlannedEndMS+1 {
				t.Errorf("%s: the next pass is due at %v, when the prediction runs out at %d", kind, due, runs.PlannedEndMS)
			}
			promised := l.last.Load().planned(sched.JobID(waits))
			if promised == nil || !promised.Sure || promised.StartMS != runs.StartMS+36_000_000 {
				t.Errorf("%s: the first planned start is %+v", kind, promised)
			}
			for id, says := range map[uint32]bool{waits: false, behind: true} {
				if overlay, _ := l.Overlay(id); overlay.EstimatedStartMS == 0 || strings.Contains(overlay.Detail, "predicted run times") != says {
					t.Errorf("%s: job %d: %+v", kind, id, overlay)
				}
			}
			time.Sleep(time.Until(l.NextPass()) + time.Millisecond)
			after := l.Snapshot(b.View(), time.Now())
			if end := after.Running[0].PlannedEndMS; end < runs.PlannedEndMS+60_000 {
				t.Errorf("%s: after %d s it is planned to %d", kind, plannedS, end)
			}
			plan(t, l)
			if again := l.last.Load().planned(sched.JobID(waits)); again.StartMS != promised.StartMS {
				t.Errorf("%s: the first planned start moved from %d to %d", kind, promised.StartMS, again.StartMS)
			}
			other := New(b, nil, slog.New(slog.DiscardHandler))
			at := time.Now()
			ignored := cmpopts.IgnoreFields(sched.Snapshot{}, "Promises", "Nodes", "Partitions")
			if d := cmp.Diff(l.Snapshot(b.View(), at), other.Snapshot(b.View(), at), ignored, cmpopts.IgnoreFields(sched.Running{}, "Placement")); d != "" {
				t.Errorf("%s: a new leader plans otherwise: %s", kind, d)
			}
		})
	}
}

// TestPredictionsAreKept: passes that keep predictions plan as those that make them, with
// jobs that come, are held, end, and are learned from meanwhile, and then shapes that come
// and go.
func TestPredictionsAreKept(t *testing.T) {
	for _, kind := range []string{policy.PredictRecentTwo, policy.PredictLearned} {
		q := newLongQueue(t, kind, 2, 120, 30, 3)
		kept, longer := 0, 0
		var lastPlan sched.Memo
		for turn := range 40 {
			switch turn % 5 {
			case 0, 1:
				q.end()
			case 3:
				q.later(time.Duration(turn) * time.Minute)
			default:
				q.submit(turn, state.Spec{CPUsPerTask: uint32(1 + turn%7), TimeLimitS: uint32(36000 + turn%3*600), MemoryPerCPU: 1 << 30})
			}
			view, version, before := q.b.View(), q.memo.predicted.version, len(q.memo.predicted.answers)
			now := q.now()
			got, want := q.l.snapshotAfter(&q.memo, view, now), q.l.Snapshot(view, now)
			for i := range want.Waiting {
				if d := cmp.Diff(want.Waiting[i], got.Waiting[i]); d != "" {
					t.Fatalf("%s, turn %d: kept, a job is another one: %s", kind, turn, d)
				}
			}
			for i := range max(len(want.Shapes), len(got.Shapes)) {
				if d := cmp.Diff(want.Shapes[i], got.Shapes[i]); d != "" {
					t.Fatalf("%s, turn %d: kept, a shape is another one: %s", kind, turn, d)
				}
			}
			plan, next := sched.Schedule(got, lastPlan)
			fresh, _ := sched.Schedule(want, sched.Memo{})
			if d := cmp.Diff(fresh, plan); d != "" {
				t.Fatalf("%s, turn %d: the plan is another one: %s", kind, turn, d)
			}
			lastPlan = next
			if version == q.memo.predicted.version && q.memo.predicted.pass > 1 {
				kept += before
			}
			for i := range got.Waiting {
				if got.Shapes[got.Waiting[i].Shape].PlannedS != 0 {
					longer++
				}
			}
			q.pass()
		}
		if kept == 0 || longer == 0 {
			t.Errorf("%s: %d predictions were kept, and %d jobs were planned by one", kind, kept, longer)
		}
	}
}

func TestRoundedUp(t *testing.T) {
	for seconds, want := range map[int64]int64{1: 60, 60: 60, 61: 64, 100: 112, 112: 112, 120: 128, 3600: 4096, 3585: 4096} {
		if got := roundedUp(seconds); got != want {
			t.Errorf("%d is %d, want %d", seconds, got, want)
		}
	}
}

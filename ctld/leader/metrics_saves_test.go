package leader

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// counts are what the leader has counted of saves and restores; of the histogram
// the sum.
func (s *saver) counts() map[string]float64 {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "gleaner_")
		if !strings.HasPrefix(name, "save") && !strings.HasPrefix(name, "restores") {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			if value := metric.GetCounter().GetValue() + metric.GetHistogram().GetSampleSum(); value != 0 {
				found[name] = value
			}
			name = strings.TrimPrefix(family.GetName(), "gleaner_")
		}
	}
	return found
}

func (s *saver) wantCounts(when string, want map[string]float64) {
	s.t.Helper()
	got := s.counts()
	for name := range want {
		if got[name] != want[name] {
			s.t.Errorf("%s: %s is %v, and should be %v", when, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, known := want[name]; !known {
			s.t.Errorf("%s: %s is %v, and should be 0", when, name, got[name])
		}
	}
}

// TestSaveMetrics: saves and restores are counted once, however often a node
// repeats itself.
func TestSaveMetrics(t *testing.T) {
	s := newSaver(t, &pb.JobSpec{})
	s.order(state.SaveAsked)
	s.order(state.SaveAsked) // is under way already
	s.wantCounts("ordered", map[string]float64{"saves_begun_total asked": 1})
	s.saved("n1", 1, false)
	s.saved("n1", 1, false)
	want := map[string]float64{"saves_begun_total asked": 1, "saves_done_total": 1, "save_standing_seconds": 0.2}
	s.wantCounts("saved", want)
	s.order(state.SaveMove, "n2")
	alloc := &pb.AllocId{Job: s.job, Epoch: s.now().Epoch}
	for range 2 {
		if err := s.Saved(context.Background(), s.nodes["n1"], &pb.AllocSaved{Alloc: alloc, Number: 2, Error: "no"}); err != nil {
			t.Fatal(err)
		}
		s.CommitReports(context.Background())
	}
	want["saves_begun_total move"], want["saves_failed_total"] = 1, 1
	s.wantCounts("not saved", want)
	s.order(state.SaveMove, "n2")
	s.saved("n1", 3, true)
	dispatch(s.Leader)
	orders(s.nodes["n1"])
	s.lostFrozen()
	want["saves_begun_total move"], want["saves_done_total"], want["save_standing_seconds"] = 2, 2, 1.2
	s.wantCounts("moved", want)
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n2", "")
	plan(t, s.Leader)
	dispatch(s.Leader)
	orders(s.nodes["n2"])
	s.ended("n2", pb.EndCause_END_CAUSE_RESTORE_FAILED)
	want["restores_failed_total"] = 1
	s.wantCounts("not restored", want)
	// It resumes elsewhere, once the nodes have answered again.
	s.KeepSaved(context.Background(), time.Now())
	s.answer("n1", "")
	plan(t, s.Leader)
	for range 2 {
		s.ready("n1")
	}
	want["restores_done_total"] = 1
	s.wantCounts("restored", want)
}

// order saves the job, and has the leader hear of it as it does of every command.
func (s *saver) order(purpose state.SavePurpose, to ...string) {
	s.t.Helper()
	if _, ok := s.propose(context.Background(), state.SaveJobs{Targets: []state.Target{{Job: s.job}}, UID: 1000, Purpose: purpose, To: to}); !ok {
		s.t.Fatal("not ordered")
	}
	dispatch(s.Leader)
	orders(s.nodes["n1"])
}

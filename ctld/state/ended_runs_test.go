package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// TestEndedRuns: a run is remembered when it is over, also one that was requeued, and
// after its job was purged, or that was over before its start was told; one that never
// began is not.
func TestEndedRuns(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range strings.Split(`register n1 cpus=4 gpus=2 boot=b1
submit by=1000 cpus=2 gpus=1
wait seconds=10
place 1 n1:0-1:gpu0
ready 1.1 n1
wait seconds=100
ended 1.1 n1 cause=exited code=0
submit by=1000 cpus=2 gpus=1
place 2 n1:0-1:gpu0
wait seconds=50
ended 2.1 n1 cause=node_fault detail=mount_failed
submit by=1000 cpus=2 gpus=1
place 3 n1:0-1:gpu0
ended 3.1 n1 cause=exited code=1`, "\n") {
		if answer := d.play(line); strings.Contains(answer, "refused") || strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	runs := slices.Collect(d.state.View().EndedRuns())
	if len(runs) != 2 || runs[1].Job != 3 {
		t.Fatalf("runs: %+v", runs)
	}
	run := runs[0]
	kind := run.Kind()
	if run.Job != 1 || run.StartS-run.EligibleS != 10 || run.EndS-run.StartS != 100 || run.RanS != 100 || kind.CPUs != 2 || kind.GPUs != 1 || kind.Nodes != 1 || kind.Partition != "main" || kind.Model == "" {
		t.Errorf("%+v of %+v", run, kind)
	}
}

// TestEndedRunsAreBounded: by number and by age, and a policy that wants fewer forgets
// at once. Kinds are kept once. What a View sees stays.
func TestEndedRunsAreBounded(t *testing.T) {
	s := New()
	policy := *s.policy
	policy.Scheduler.ReplayRuns, policy.Scheduler.ReplayAgeS = 1000, 500
	s.setPolicy(&policy)
	add := func(atS uint32) {
		s.timeMS = int64(atS) * 1000
		s.addEndedRun(EndedRun{Job: atS, EligibleS: atS - 7, StartS: atS - 5, EndS: atS, RanS: 5}, RunKind{User: fmt.Sprint("u", atS%7), Nodes: 1})
		s.boundEndedRuns()
		if err := s.checkEndedRuns(); err != nil {
			t.Fatal(err)
		}
	}
	for atS := uint32(100_000); atS < 100_300; atS++ {
		add(atS)
		add(atS)
	}
	before := s.View()
	if len(s.endedRuns) != 600 || len(s.runKinds) != 7 {
		t.Fatalf("%d runs of %d kinds", len(s.endedRuns), len(s.runKinds))
	}
	add(100_600)
	if first := s.endedRuns[0].EndS; first != 100_100 {
		t.Errorf("the first run is of second %d, and those older than 500 s are forgotten", first)
	}
	if got := slices.Collect(before.EndedRuns()); len(got) != 600 || got[0].EndS != 100_000 {
		t.Errorf("the View before has %d runs now", len(got))
	}
	policy.Scheduler.ReplayRuns = 3
	s.setPolicy(&policy)
	s.boundEndedRuns()
	if len(s.endedRuns) != 3 {
		t.Errorf("%d runs are kept, and the policy wants 3", len(s.endedRuns))
	}
	if err := s.checkEndedRuns(); err != nil {
		t.Error(err)
	}
}

// TestEndedRunsCost: what is said of their size holds.
func TestEndedRunsCost(t *testing.T) {
	const runs = 10_000
	s := New()
	for i := range uint32(runs) {
		s.timeMS = int64(1_700_000_000+i*30) * 1000
		startS := unixSeconds(s.timeMS) - 3600 - i%1000
		s.addEndedRun(EndedRun{Job: 100_000 + i, EligibleS: startS - i%5000, StartS: startS, EndS: unixSeconds(s.timeMS), RanS: 3600 + i%1000}, RunKind{User: fmt.Sprint("user", i%40), Account: "vision", Partition: "main", Model: "NVIDIA A100-SXM4-80GB", LimitS: 86400, Nodes: 1, CPUs: 8, GPUs: 1 + i%4})
	}
	if size := unsafe.Sizeof(EndedRun{}); size > 32 {
		t.Errorf("a run takes %d bytes", size)
	}
	var with, without bytes.Buffer
	if err := s.View().Persist(&with); err != nil {
		t.Fatal(err)
	}
	if err := New().View().Persist(&without); err != nil {
		t.Fatal(err)
	}
	each := float64(with.Len()-without.Len()) / runs
	t.Logf("%.1f bytes each, persisted", each)
	if each > 40 {
		t.Errorf("a run takes %.1f bytes in a snapshot", each)
	}
	again, err := Restore(&with)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.checkEndedRuns(); err != nil || !slices.EqualFunc(s.endedRuns, again.endedRuns, func(a, b EndedRun) bool {
		kinds := *a.kind == *b.kind
		a.kind, b.kind = nil, nil
		return a == b && kinds
	}) {
		t.Errorf("what is restored differs: %v", err)
	}
	for _, wrong := range []endedRunsRecord{
		{Runs: []endedRunRow{{}}},
		{Kinds: []RunKind{{}}, Runs: []endedRunRow{{EligibleS: 1 << 31, WaitedS: 1 << 31}}},
		{Kinds: []RunKind{{}}, Runs: []endedRunRow{{EligibleS: 9}, {EligibleS: 8}}},
	} {
		if err := New().restoreEndedRuns(&wrong); err == nil {
			t.Errorf("%+v was restored", wrong)
		}
	}
}

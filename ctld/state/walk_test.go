package state

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestRandomWalk: whatever is applied, every invariant holds, two replicas
// hold the same bytes, and a restored one continues like them.
func TestRandomWalk(t *testing.T) {
	seeds, steps := prototest.Soak(4, 60), 1500
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, seed, steps)
		})
	}
}

func walk(t *testing.T, seed int64, steps int) {
	w := newWalker(seed)
	w.shares, w.frozen = seed%4 > 0, seed%4 > 1
	w.stages = seed < firstReclaimedSeed && seed%1000 >= firstStagedSeed
	if w.owners = seed >= firstReclaimedSeed; w.owners {
		w.shares, w.frozen = false, true
	}
	one, two := New(), New()
	if w.saves = seed >= firstSavedSeed && (!w.owners || seed%2 > 0); w.saves && !w.owners {
		w.shares, w.frozen = seed%2 > 0, seed%4 == 3
	}
	now := int64(1_000_000)
	started, finished, preempted := 0, 0, 0
	tally, lines, memory := map[string]int{}, lineages{}, newRememberer(seed)
	for index := uint64(1); index <= uint64(steps); index++ {
		now += int64(w.Intn(2000)) - 200 // clocks of leaders differ
		command := w.next(one.View())
		entry, err := Encode(command, w.requestID(), now)
		if err != nil {
			t.Fatal(err)
		}
		before := one.View()
		first := mustApply(t, one, index, entry)
		tryAccounts(t, before, command, one, &first)
		second := mustApply(t, two, index, entry)
		if a, b := fmt.Sprintf("%+v", first), fmt.Sprintf("%+v", second); a != b {
			t.Fatalf("entry %d: results differ:\n%s\n%s", index, a, b)
		}
		if err := one.Check(); err != nil {
			t.Fatalf("entry %d (%s %+v): %v", index, command.kind(), command, err)
		}
		for _, start := range first.Starts {
			if start.Job != 0 {
				started++
			}
		}
		finished += len(first.PurgedJobs)
		tallyWaits(one, command, &first, tally)
		preempted += goers(first.Preemptions)
		tallySuspensions(one, &first, tally)
		checkReserved(t, one, &first, tally)
		tallyReclaims(before, one, &first, tally)
		tallySaves(t, before, one.View(), command, tally)
		lines.follow(t, before, one.View(), tally)
		checkMessages(t, one.View())
		if index%5 == 0 {
			memory.check(t, one.View())
		}
		if index%97 == 0 {
			two = checkReplicas(t, one, two)
		}
	}
	t.Logf("%d starts, %d preempted, %d purged, %+v, %v", started, preempted, finished, one.View().Counts(), tally)
	if memory.jobs < steps/50 || memory.nodes < steps/50 {
		t.Errorf("only %d jobs and %d nodes of a snapshot were taken over from the one before", memory.jobs, memory.nodes)
	}
	if w.frozen && steps > 1000 && tally["suspended"] == 0 {
		t.Error("nobody is suspended")
	}
	if w.owners && steps > 1000 && (tally["reclaims"] < 10 || tally["parked"] == 0) {
		t.Errorf("nobody is parked: %v", tally)
	}
	if w.owners && steps > 1000 && tally["terms set"] == 0 {
		t.Errorf("no terms of lending are set: %v", tally)
	}
	if w.owners && steps > 1000 && tally["reserved"] == 0 {
		t.Errorf("nothing is reserved: %v", tally)
	}
	least := steps / 20
	if w.shares { // many wait for one another
		least /= 2
	}
	if w.saves { // and run for long
		least = steps / 200
	}
	if w.owners { // and nodes are often reclaimed
		least = steps / 750
	}
	if w.saves && tally["images"] == 0 {
		t.Errorf("nothing was saved: %v", tally)
	}
	if started < least || finished < min(least, steps/100) {
		t.Errorf("only %d starts and %d purged jobs in %d steps: the walk goes nowhere", started, finished, steps)
	}
}

// checkReplicas compares what two replicas persist and returns one restored
// from it.
func checkReplicas(t *testing.T, one, two *State) *State {
	t.Helper()
	a, b := persisted(t, one), persisted(t, two)
	if !bytes.Equal(a, b) {
		t.Fatal("two replicas of one log persist different bytes")
	}
	restored, err := Restore(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := restored.Check(); err != nil {
		t.Fatalf("restored: %v", err)
	}
	if !bytes.Equal(persisted(t, restored), a) {
		t.Fatal("a restored state persists other bytes")
	}
	return restored
}

// checkMessages makes every message and order, which must not panic.
func checkMessages(t *testing.T, v *View) {
	t.Helper()
	snapshot := v.SchedSnapshot(v.TimeMS())
	if counts := v.Counts(); len(snapshot.Waiting) != counts.Waiting || len(snapshot.Running) != counts.Active {
		t.Fatal("the scheduler's view misses jobs")
	}
	for job := range v.Jobs(0) {
		v.JobMessage(job, Overlay{}, JobDetail{Script: true, Environment: true})
	}
	for node := range v.Nodes() {
		v.NodeMessage(node)
		for _, wanted := range v.WantedAllocs(node.Name) {
			checkOneRuns(t, v, &wanted)
			if _, err := v.StartAlloc(wanted.Job, node.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func mustApply(t testing.TB, s *State, index uint64, entry []byte) Result {
	t.Helper()
	result, err := s.Apply(index, entry)
	if err != nil {
		t.Fatalf("entry %d: %v", index, err)
	}
	return result
}

func persisted(t testing.TB, s *State) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := s.View().Persist(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

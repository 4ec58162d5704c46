package state

import (
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSavesNeedTheirLevel: what saves jobs is not proposed below LevelFrozen, and
// what older commands do not say does not need it.
func TestSavesNeedTheirLevel(t *testing.T) {
	for _, command := range []Command{
		SaveJobs{}, PartsSaved{}, AbandonSaves{}, DropImages{},
		PlaceJobs{Starts: []StartOrder{{}, {Image: 1}}}, PreemptJobs{Preemptions: []PreemptOrder{{Save: true}}},
	} {
		if got := LevelOf(command); got != LevelFrozen {
			t.Errorf("%T needs level %d", command, got)
		}
	}
	for command, want := range map[Kind]Level{
		KindPlaceJobs:   LevelOf(PlaceJobs{Starts: []StartOrder{{Job: 1, Priority: 3}}}),
		KindPreemptJobs: LevelOf(PreemptJobs{Preemptions: []PreemptOrder{{Job: 1}}}),
	} {
		if want != LevelShares {
			t.Errorf("%v needs level %d without images", command, want)
		}
	}
}

// TestNothingIsWrittenBelowItsLevel: a program that knows LevelShares only can read
// what a state below LevelFrozen writes, whatever happened to its jobs.
func TestNothingIsWrittenBelowItsLevel(t *testing.T) {
	for level, want := range map[Level]bool{LevelShares: false, LevelFrozen: true} {
		s := New()
		index := uint64(0)
		do := func(command Command) {
			t.Helper()
			index++
			entry, err := Encode(command, RequestID{}, int64(1_000_000+index*60_000))
			if err != nil {
				t.Fatal(err)
			}
			if result := mustApply(t, s, index, entry); result.Refused != nil {
				t.Fatal(result.Refused)
			}
		}
		do(RaiseLevel{Level: level})
		do(RegisterNode{Name: "n1", Inventory: Inventory{CPUs: 4, MemoryBytes: 1 << 30}})
		do(SubmitJob{Owner: Owner{UID: 1000}, Spec: Spec{Requeue: true}, Own: Own{Name: "j"}, Script: []byte("#!/bin/sh\n")})
		for epoch := uint32(1); epoch < 4; epoch++ {
			do(PlaceJobs{Starts: []StartOrder{{Job: 1, Partition: "main", Parts: []PartOrder{{Node: "n1", CPUs: []uint32{0}}}}}})
			do(PartsReady{Parts: []PartRef{{1, epoch, "n1"}}})
			do(PartsEnded{Reports: []PartReport{{Job: 1, Epoch: epoch, Node: "n1", Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}}})
		}
		job, _ := s.Job(1)
		node, _ := s.nodes.Get("n1")
		if job.Epoch != 3 {
			t.Fatalf("the job has run %d times", job.Epoch)
		}
		for what, newest := range map[any]int{job: 46, node: 21} {
			if above := keysAbove(t, what, newest); above != (want && what == any(node)) {
				t.Errorf("level %d: %T has fields of LevelFrozen: %t", level, what, above)
			}
		}
	}
}

// keysAbove says whether a record is written with a field beyond one.
func keysAbove(t *testing.T, record any, newest int) bool {
	t.Helper()
	body, err := encoding.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[int]any
	if err := decoding.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	for key := range fields {
		if key > newest {
			return true
		}
	}
	return false
}

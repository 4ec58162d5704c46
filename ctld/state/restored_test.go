package state

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestRestoredTwice: a backup put back a second time, when nothing is known of
// the first, gives out other numbers and other epochs.
func TestRestoredTwice(t *testing.T) {
	w := newWorld(t, 1)
	w.submit()
	w.schedule()
	backup := persisted(t, w.state)
	var former *State
	for hours := range int64(4) {
		restored, err := Restore(bytes.NewReader(backup))
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.Recover(Restored{TimeMS: w.nowMS + (hours+1)*3_600_000}); err != nil {
			t.Fatal(err)
		}
		if former != nil && (restored.nextJob < former.nextJob+30_000 || restored.epochFloor < former.epochFloor+3_000) {
			t.Fatalf("job %d and epochs above %d; the restore an hour before had %d and %d", restored.nextJob, restored.epochFloor, former.nextJob, former.epochFloor)
		}
		former = restored
	}
}

// TestRestoredOutOfNumbers: a state without room to jump is refused.
func TestRestoredOutOfNumbers(t *testing.T) {
	s := New()
	s.nextJob = bounds.MaxJobID - 5
	if err := s.Recover(Restored{}); !errors.Is(err, ErrNoNumbers) {
		t.Fatalf("job numbers: %v", err)
	}
	s = New()
	s.epochFloor = math.MaxUint32
	if err := s.Recover(Restored{}); !errors.Is(err, ErrNoNumbers) {
		t.Fatalf("epochs: %v", err)
	}
}

// TestDoubtedStart: a run whose start may never have been committed is ended
// and waits again, under another epoch; one that was up continues.
func TestDoubtedStart(t *testing.T) {
	w := newWorld(t, 1)
	submit := SubmitJob{Owner: Owner{UID: 1000, User: "u"}, Script: []byte("#!/bin/sh\n"), Spec: Spec{MemoryPerNode: 1}}
	up, doubted := w.apply(submit).JobID, w.apply(submit).JobID
	w.schedule()
	first, _ := w.state.Job(up)
	w.apply(AllocsReady{Allocs: []AllocRef{{up, first.Epoch, first.Run.BatchHost()}}})
	if err := w.state.Recover(Restored{TimeMS: w.nowMS, Uncertain: true}); err != nil {
		t.Fatal(err)
	}
	job, _ := w.state.Job(doubted)
	if job.Phase != Ending || !job.End.Requeue {
		t.Fatalf("the doubted job is %+v", job)
	}
	host := job.Run.BatchHost()
	register := RegisterNode{Name: host, Inventory: Inventory{CPUs: 8, MemoryBytes: 64, BootID: "0"}, Running: []RunningAlloc{{Job: doubted, Epoch: job.Epoch}}}
	if first.Run.BatchHost() == host {
		register.Running = append(register.Running, RunningAlloc{Job: up, Epoch: first.Epoch, Ready: true})
	}
	w.apply(register)
	if !w.state.IsStranger(AllocRef{doubted, job.Epoch, host}) {
		t.Fatal("the doubted run is not waited for")
	}
	w.apply(AllocsEnded{Reports: []AllocReport{{Job: doubted, Epoch: job.Epoch, Node: host, Cause: pb.EndCause_END_CAUSE_CANCELLED}}})
	after, _ := w.state.Job(doubted)
	if after.Phase != Waiting || w.state.IsStranger(AllocRef{doubted, job.Epoch, host}) {
		t.Fatalf("after its end: %+v", after)
	}
	if still, _ := w.state.Job(up); still.Phase != Running || still.Epoch != first.Epoch {
		t.Fatalf("the job that was up is %+v", still)
	}
	for _, node := range w.nodes {
		w.register(node)
	}
	w.schedule()
	if again, _ := w.state.Job(doubted); again.Epoch <= epochJump {
		t.Fatalf("it starts over as epoch %d", again.Epoch)
	}
}

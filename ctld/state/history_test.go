package state

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func historyOf(t *testing.T, view *View) []*pb.PastRun {
	t.Helper()
	var runs []*pb.PastRun
	for stored := range view.HistoryAfter(0) {
		run := new(pb.PastRun)
		if err := proto.Unmarshal(stored.Run, run); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// TestHistory: every end enters the outbox once: of a run that is requeued, of one that
// is over, of a job that never ran; and a snapshot carries what waits.
func TestHistory(t *testing.T) {
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	for _, line := range strings.Split(`register n1 cpus=4 gpus=2 boot=b1
submit by=1000 cpus=2 gpus=1 requeue
wait seconds=10
place 1 n1:0-1:gpu0
ready 1.1 n1
wait seconds=100
requeue 1 by=1000
ended 1.1 n1 cause=cancelled
place 1 n1:0-1:gpu0
ready 1.2 n1
wait seconds=7
ended 1.2 n1 cause=exited code=3
ended 1.2 n1 cause=exited code=3
submit by=1000 cpus=2
cancel 2 by=1000
cancel 2 by=1000`, "\n") {
		if answer := d.play(line); strings.Contains(answer, "refused") || strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	runs := historyOf(t, d.state.View())
	if len(runs) != 3 {
		t.Fatalf("%d runs: %v", len(runs), runs)
	}
	first, second, never := runs[0], runs[1], runs[2]
	if job := first.Job; !first.Requeued || first.RanMs != 100_000 || job.Epoch != 1 || job.EndMs-job.StartMs != 100_000 || job.Allocation[0].Devices[0].Model == "" || job.Allocation[0].CpuIds != nil || len(job.Spec.Script) > 0 {
		t.Errorf("the run that was requeued: %v", first)
	}
	if job := second.Job; second.Requeued || job.State != pb.JobState_JOB_STATE_FAILED || job.ExitCode != 3 || job.Epoch != 2 || job.RestartCount != 1 || second.RanMs != 7000 {
		t.Errorf("the run that failed: %v", second)
	}
	if job := never.Job; never.Requeued || job.State != pb.JobState_JOB_STATE_CANCELLED || job.StartMs != 0 || job.EndMs == 0 || job.GetCancelledByUid() != 1000 {
		t.Errorf("the job that never ran: %v", never)
	}

	written := persisted(t, d.state)
	again, err := Restore(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, persisted(t, again)) || len(historyOf(t, again.View())) != 3 {
		t.Error("a snapshot does not carry the outbox")
	}
	before, all := again.View(), slices.Collect(again.View().HistoryAfter(0))
	TrimHistory{Through: all[1].At}.apply(again, &Result{})
	again.view = nil
	if rest := historyOf(t, again.View()); len(rest) != 1 || again.View().HistoryTrimmed() != all[1].At || len(historyOf(t, before)) != 3 {
		t.Errorf("trimmed: %v", rest)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
}

// TestHistoryIsBounded: the outbox gives up its oldest runs, counts them, and a View
// keeps what it had.
func TestHistoryIsBounded(t *testing.T) {
	s := New()
	run := HistoryRun{Run: make([]byte, 1<<20)} // all share it
	for s.index = 1; s.index <= 300; s.index++ {
		run.At = Position(s.index << positionBits)
		s.outbox.add(run)
		s.outbox.bound(bounds.MaxHistoryBytes)
	}
	s.index, s.view = 320, nil // a multiple of 64: all of it is looked at
	runs, size, lost := s.View().HistorySize()
	if lost == 0 || uint64(runs)+lost != 300 || size > bounds.MaxHistoryBytes || s.outbox.trimmed.Index() != lost {
		t.Errorf("%d runs of %d bytes, %d lost, trimmed at %d", runs, size, lost, s.outbox.trimmed.Index())
	}
	if err := s.outbox.check("history", s.index, bounds.MaxHistoryBytes); err != nil {
		t.Error(err)
	}
}

package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeptDisk: a disk goes from one run of a job to the next, the last one is meant, and
// what nobody needs is deleted.
func TestKeptDisk(t *testing.T) {
	ctx, state := context.Background(), t.TempDir()
	order := &pb.StartAlloc{Alloc: &pb.AllocId{Job: 7, Epoch: 1}, KeepDisk: true, Stages: true}
	done := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_EXITED}
	first, second := At(state, order.Alloc), At(state, &pb.AllocId{Job: 7, Epoch: 2})
	kept := KeptOf(state, 7)
	if err := kept.Take(ctx, second); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("nothing is there: %v", err)
	}
	for _, text := range []string{"older", "newer"} {
		put(t, first.Path(DiskFile), text)
		for range 2 { // it may be called again
			if err := first.KeepDisk(order, done, state); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(t, second.Path(OrderFile), "")
	if err := kept.Take(ctx, second); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(second.Path(DiskFile)); err != nil || string(text) != "newer" {
		t.Fatalf("%q, %v", text, err)
	}
	if err := second.KeepDisk(order, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_CANCELLED}, state); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(string(kept)); err == nil {
		t.Error("the files of a run that was cancelled are kept")
	}
	gang := &pb.StartAlloc{Alloc: order.Alloc, KeepDisk: true, Allocation: []*pb.NodeAllocation{{}, {}}}
	if !keeps(gang, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_CANCELLED}) || keeps(gang, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_RECLAIMED}) {
		t.Error("of a job on several nodes whose end was decided on another")
	}
	if err := second.KeepDisk(order, done, state); err != nil {
		t.Fatal(err)
	}
	died := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
	put(t, first.Path(DiskFile), "half")
	if err := first.KeepDisk(order, died, state); err != nil {
		t.Fatal(err)
	}
	part := PartOf(state, 7)
	for _, age := range []time.Duration{0, partAge + time.Second} {
		if err := os.Chtimes(string(part), time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		if _, err := TidyKept(state, func(uint32) bool { return true }, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(string(part)); (err == nil) != (age == 0) {
			t.Errorf("what came of a run that was interrupted, %v ago: %v", age, err)
		}
	}
	put(t, filepath.Join(state, StagedDir, "another boot", "9", DiskFile), "old")
	for _, c := range []struct {
		needed bool
		age    time.Duration
		stays  bool
	}{{true, 0, true}, {false, time.Hour, true}, {false, 0, false}} {
		if _, err := TidyKept(state, func(job uint32) bool { return c.needed && job == 7 }, c.age); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(string(kept)); (err == nil) != c.stays {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(state, StagedDir)); err != nil || len(left) != 1 {
		t.Errorf("of another boot: %v, %v", left, err)
	}
}

// TestWhatIsKept: of each kind of run.
func TestWhatIsKept(t *testing.T) {
	exited, failed := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_EXITED}, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_EXITED, ExitCode: 1}
	cancelled, late := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_CANCELLED}, &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_TIME_LIMIT}
	in, run := &pb.StartAlloc{KeepDisk: true, Stages: true}, &pb.StartAlloc{KeepDisk: true, Staged: true}
	out := &pb.StartAlloc{KeepDisk: true, Stages: true, Staged: true}
	for i, c := range []struct {
		order  *pb.StartAlloc
		result *pb.AllocEnded
		want   bool
	}{
		{&pb.StartAlloc{}, exited, false}, {in, exited, true}, {in, failed, false}, {in, late, false},
		{run, exited, true}, {run, failed, true}, {run, late, true}, {run, cancelled, false},
		{out, exited, false}, {out, failed, true}, {out, cancelled, true},
	} {
		if got := keeps(c.order, c.result); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
	died := &pb.AllocEnded{Cause: pb.EndCause_END_CAUSE_SUPERVISOR_DIED}
	gangIn := &pb.StartAlloc{KeepDisk: true, Stages: true, Allocation: []*pb.NodeAllocation{{}, {}}}
	for i, c := range []struct {
		order  *pb.StartAlloc
		result *pb.AllocEnded
		want   bool
	}{{in, died, true}, {in, failed, false}, {in, cancelled, false}, {gangIn, cancelled, true}, {run, died, false}, {out, died, false}} {
		if got := keepsPart(c.order, c.result); got != c.want {
			t.Errorf("part %d: %t", i, got)
		}
	}
}

package supervise

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/lease"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestWhateverIsOrdered: in any order of orders, steps and failures, the outcome of the
// highest save is told in the end, at most one save is under way, and a job is frozen
// with its image only while nobody asked that it resume.
func TestWhateverIsOrdered(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		id := &pb.AllocId{Job: 1, Epoch: 1}
		a := &Alloc{ID: id, Lease: lease.Lease{Runs: true}, Up: true, Ready: true, Released: true}
		highest, frozen := uint32(0), false // frozen: the shell's processes
		carryOut := func(do Do) {
			for do != (Do{}) {
				var next Do
				if do.Resume {
					frozen = false
				}
				if do.Begin != nil && (do.Begin != a.Now || a.Frozen != nil || frozen) {
					t.Fatalf("seed %d: a save begins beside another, or of a frozen job", seed)
				}
				if do.Abort != nil {
					frozen = false
					next = a.Saved(a.Outcome(a.Now, nil, do.Abort))
				}
				do = next
			}
		}
		finish := func() {
			s, image := a.Now, &pb.Image{Alloc: id, Number: a.Now.Order.Number}
			failure := s.Dumped()
			if failure != nil || rng.IntN(4) == 0 {
				image, failure = nil, ErrAborted
			}
			frozen = s.Settled(image != nil)
			result := a.Outcome(s, image, failure)
			if rng.IntN(4) == 0 { // an order between the outcome and its being noted
				carryOut(a.Save(&pb.SaveAlloc{Alloc: id, Number: s.Order.Number, Then: pb.SaveThen(rng.IntN(3))}))
			}
			carryOut(a.Saved(result))
		}
		for range 40 {
			switch rng.IntN(4) {
			case 0, 1:
				number := uint32(1 + rng.IntN(8))
				highest = max(highest, number)
				carryOut(a.Save(&pb.SaveAlloc{Alloc: id, Number: number, Then: pb.SaveThen(rng.IntN(3)), Abandon: rng.IntN(3) == 0}))
			case 2:
				if a.Now != nil {
					a.Now.Step = Step(rng.IntN(int(StepOver)))
				}
			case 3:
				if a.Now != nil {
					finish()
				}
			}
			if frozen != (a.Frozen != nil) && a.Now == nil {
				t.Fatalf("seed %d: frozen %v, and it is noted %v", seed, frozen, a.Frozen != nil)
			}
			if a.Now == nil && a.Last.GetFrozen() != (a.Frozen != nil) {
				t.Fatalf("seed %d: told %v, frozen %v", seed, a.Last, a.Frozen != nil)
			}
		}
		for a.Now != nil {
			finish()
		}
		if a.Last.GetNumber() != highest {
			t.Fatalf("seed %d: told of %d, and not of %d", seed, a.Last.GetNumber(), highest)
		}
	}
}

// TestLook: what is done when a lease ends, or a job is suspended, in each step of a
// save.
func TestLook(t *testing.T) {
	const now = time.Minute
	fenced := lease.Lease{Fence: true, Begun: 1, End: now, Margin: now, Runs: true}
	suspended := lease.Lease{Suspended: true, Runs: true}
	frozen := lease.Lease{Fence: true, End: now + 1}
	for _, row := range []struct {
		name  string
		lease lease.Lease
		step  Step // of a save; StepOver = none
		busy  bool
		want  Do
	}{
		{"ended", fenced, StepOver, false, Do{Freeze: true}},
		{"ended in a dump", fenced, StepDump, false, Do{Freeze: true, Abort: ErrLeaseEnded}},
		{"ended while GPUs are parked", fenced, StepPark, true, Do{Freeze: true, Abort: ErrLeaseEnded}},
		{"ended while an image is packed", fenced, StepPack, false, Do{Freeze: true}},
		{"suspended", suspended, StepOver, false, Do{Freeze: true}},
		{"suspended in a dump", suspended, StepDump, false, Do{Again: true}},
		{"suspended while GPUs are parked", suspended, StepPark, true, Do{Again: true}},
		{"renewed", frozen, StepOver, false, Do{Thaw: true}},
		{"renewed in a dump", frozen, StepDump, false, Do{Again: true}},
		{"renewed while an image is packed", frozen, StepPack, false, Do{Thaw: true}},
		{"gone", lease.Lease{Fence: true, Gone: true}, StepDump, false, Do{Remove: true}},
	} {
		a := Alloc{Lease: row.lease}
		if row.step != StepOver {
			a.Now = &Save{Step: row.step}
		}
		if got := a.Look(now, row.busy); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

// TestStartBatch: the order to start the script, in each state in which it may come.
func TestStartBatch(t *testing.T) {
	for _, row := range []struct {
		name string
		is   Alloc
		want Batch
	}{
		{"early", Alloc{Gang: true, Host: true}, BatchEarly},
		{"on the batch host", Alloc{Gang: true, Host: true, Ready: true}, BatchStart},
		{"on another node", Alloc{Gang: true, Ready: true}, BatchNothing},
		{"on another node, restored", Alloc{Gang: true, Restored: true, Ready: true}, BatchResume},
		{"again", Alloc{Gang: true, Host: true, Ready: true, Released: true}, BatchNothing},
		{"of what is ending", Alloc{Gang: true, Host: true, Ready: true, Ending: true}, BatchNothing},
	} {
		if got := row.is.StartBatch(); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// TestNews: each watcher is told everything once, and what has changed again.
func TestNews(t *testing.T) {
	a := &Alloc{ID: &pb.AllocId{Job: 1, Epoch: 1}, Lease: lease.Lease{Fence: true, Runs: true}}
	var told Told
	kinds := func() (all []string) {
		for _, event := range told.News(a, a.Checkpointable, nil) {
			all = append(all, string(event.ProtoReflect().WhichOneof(event.ProtoReflect().Descriptor().Oneofs().Get(0)).Name()))
		}
		return all
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if got := kinds(); !slices.Equal(got, want) {
			t.Errorf("%s: told %v, want %v", what, got, want)
		}
	}
	expect("at first", "lease")
	expect("nothing new")
	a.Started()
	expect("it is up", "ready")
	a.Suspend(&pb.SuspendAlloc{Number: 1, Suspended: true}, time.Second)
	expect("it is to be suspended", "suspended")
	a.Froze()
	expect("it is", "suspended")
	a.Last = &pb.AllocSaved{Number: 1}
	expect("a save ended", "saved")
	a.Save(&pb.SaveAlloc{Number: 1})
	expect("its order came again", "saved")
	told = Told{}
	expect("another watcher", "lease", "suspended", "ready", "saved")
}

// TestOutcome: what a save that failed says of the next one.
func TestOutcome(t *testing.T) {
	a, image := &Alloc{}, &pb.Image{Number: 1}
	for _, row := range []struct {
		image   *pb.Image
		failure error
		want    pb.Checkpointable
		frozen  bool
	}{
		{image, nil, pb.Checkpointable_CHECKPOINTABLE_YES, true},
		{image, errors.New("it could not be resumed"), pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, false},
		{nil, errors.New("a pipe"), pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, false},
		{nil, fmt.Errorf("%w: a step runs", ErrPassing), pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED, false},
		{nil, errors.Join(ErrLeaseEnded, errors.New("CRIU was killed")), pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED, false},
	} {
		got := a.Outcome(&Save{Order: &pb.SaveAlloc{Number: 1, Then: pb.SaveThen_SAVE_THEN_FREEZE}}, row.image, row.failure)
		if got.Checkpointable != row.want || got.Frozen != row.frozen || (got.Error == "") != (row.image != nil) {
			t.Errorf("%v: %v", row.failure, got)
		}
	}
}

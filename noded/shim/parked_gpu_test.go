package shim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// until its deadline and is dead a moment later; so does what also ends, or is saved.
func TestStubbornPark(t *testing.T) {
	for name, meanwhile := range map[string]func(*started){
		"nothing else": func(*started) {},
		"it is cancelled": func(s *started) {
			_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 600})
			must(s.b.t, err)
		},
		"a save is ordered": func(s *started) {
			_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Then: freeze})
			must(s.b.t, err)
		},
		"the order comes again, with more time": func(s *started) { s.park(2, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newGPUBed(t)
			order := b.bed.order(`trap '' TERM
LD_PRELOAD=$PWD/libcuda.so.1 sh -c 'trap "" TERM; echo $$ > uses; while :; do sleep 0.05; done' &
while :; do sleep 0.05; done`)
			order.Allocation = b.order.Allocation
			s := b.launch(order)
			s.ready()
			eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
			b.standin.write(t, b.user(), "0")
			b.standin.fault(t, "lock 0 hang")
			const within, late = 1500 * time.Millisecond, 3 * time.Second // on a busy machine
			asked := time.Now()
			s.park(1, within)
			meanwhile(s)
			eventually(t, "its processes are gone", func() bool { return !groupExists(s) })
			took := time.Since(asked)
			t.Logf("dead after %v", took)
			if took < within-supervise.KillTime(within)-100*time.Millisecond || took > within+late {
				t.Errorf("dead after %v, the deadline was %v", took, within)
			}
			result := s.wait()
			want := pb.EndCause_END_CAUSE_RECLAIMED
			if name == "it is cancelled" {
				want = pb.EndCause_END_CAUSE_CANCELLED
			}
			if result.GetFreed().GetTookMs() < 900 || result.Freed.SlowestMs < 900 {
				t.Errorf("what the time went to: %v", result.Freed)
			}
			if result.Cause != want || want == pb.EndCause_END_CAUSE_RECLAIMED && !strings.Contains(result.Detail, "not parked in time") {
				t.Errorf("ended %v", result)
			}
			t.Log(result.Detail)
		})
	}
}

// TestRefusedForGood: what the driver cannot take away keeps the owner of the node no longer
// than the job's own time to end.
func TestRefusedForGood(t *testing.T) {
	b := newGPUBed(t)
	s := b.launch(b.order)
	s.ready()
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	b.standin.fault(t, "checkpoint 0 fail 801")
	s.park(1, 10*time.Minute)
	result := s.wait()
	if result.Cause != pb.EndCause_END_CAUSE_RECLAIMED || !strings.Contains(result.Detail, "it cannot be parked") || !strings.Contains(result.Detail, "unified memory") {
		t.Errorf("ended %v", result)
	}
	if tried := strings.Count(b.standin.log(), "checkpoint"); tried != 1 {
		t.Errorf("the driver was asked %d times: %s", tried, b.standin.log())
	}
	t.Log(result.Detail)
}

// kernel refuses it the GPU, and it has it back when it runs.
func TestParkTakesGPUMemory(t *testing.T) {
	for _, first := range []string{"runs", "is suspended"} {
		t.Run(first, func(t *testing.T) {
			b := newGPUBed(t)
			s := b.launch(b.order)
			s.ready()
			b.countsOn()
			eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
			b.standin.write(t, b.user(), "0")
			if first == "is suspended" {
				s.suspend(1, true)
				s.says(1, true)
			}
			outside := b.settings.DeviceFiles[0].Path
			s.park(2, time.Minute)
			t.Logf("parked in %v", s.saysParked(2, true))
			if !b.is(cuda.Checkpointed) || !s.refuses(outside) {
				t.Error("it is parked and has its GPU")
			}
			at := b.counts()
			time.Sleep(100 * time.Millisecond)
			if b.counts() != at {
				t.Error("it is parked and counts")
			}
			s.suspend(3, false)
			s.saysParked(3, false)
			b.countsOn()
			eventually(t, "it has its GPU back", func() bool { return b.is(cuda.Running) })
			if s.refuses(outside) {
				t.Error("it is refused its GPU")
			}
			s.cancel()
		})
	}
}

// runs, and is not killed at the deadline.
func TestParkCalledOff(t *testing.T) {
	for _, fault := range []string{"", "lock 1 fail 999", "checkpoint 1 fail 999"} {
		t.Run("fault "+fault, func(t *testing.T) {
			b := newGPUBed(t)
			s := b.launch(b.order)
			s.ready()
			eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
			b.standin.write(t, b.user(), "0")
			b.standin.fault(t, fault)
			for number := uint32(1); number < 20; number += 2 {
				s.park(number, 700*time.Millisecond)
				time.Sleep(time.Duration(number) * 3 * time.Millisecond)
				s.suspend(number+1, false)
			}
			s.saysParked(20, false)
			time.Sleep(time.Second) // the last deadline
			b.countsOn()
			eventually(t, "it has its GPU", func() bool { return b.is(cuda.Running) })
			if s.refuses(b.settings.DeviceFiles[0].Path) {
				t.Error("it is refused its GPU")
			}
			s.cancel()
		})
	}
}

// the job.
func TestParkDuringSave(t *testing.T) {
	b := newGPUBed(t)
	s := b.launch(b.order)
	s.ready()
	s.graded(pb.Checkpointable_CHECKPOINTABLE_LIKELY)
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	outside := b.settings.DeviceFiles[0].Path
	made := 0
	for i := range uint32(10) {
		then := resume
		if i%2 == 1 {
			then = freeze
		}
		_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: i + 1, Then: then})
		must(t, err)
		time.Sleep(time.Duration(i) * 40 * time.Millisecond)
		s.park(2*i+1, time.Minute)
		took := s.saysParked(2*i+1, true)
		if !b.is(cuda.Checkpointed) || !s.refuses(outside) {
			t.Errorf("save %d: it is parked and has its GPU", i+1)
		}
		saved := s.saysSaved(i + 1)
		t.Logf("save %d: parked in %v; %q, frozen %v", i+1, took, saved.Error, saved.Frozen)
		if saved.Image != nil {
			made++
		}
		at := b.counts()
		if saved.Frozen {
			_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: i + 1, Abandon: true})
			must(t, err)
		}
		time.Sleep(50 * time.Millisecond)
		if b.counts() != at || !b.is(cuda.Checkpointed) {
			t.Errorf("save %d: it runs, or has its GPU, though it is parked", i+1)
		}
		s.suspend(2*i+2, false)
		s.saysParked(2*i+2, false)
		b.countsOn()
		eventually(t, "it has its GPU back", func() bool { return b.is(cuda.Running) })
	}
	t.Logf("%d images of 10", made)
	s.cancel()
}

// saysSaved waits until a new watcher is told how a save ended.
func (s *started) saysSaved(number uint32) *pb.AllocSaved {
	s.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(s.b.t, err)
	for {
		event, err := stream.Recv()
		must(s.b.t, err)
		if saved := event.GetSaved(); saved.GetNumber() == number {
			return saved
		}
	}
}

// TestKilledInMidPark: a supervisor that is killed while the driver hangs leaves nothing.
func TestKilledInMidPark(t *testing.T) {
	b := newGPUBed(t)
	s := b.launch(b.order)
	s.ready()
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	b.standin.fault(t, "checkpoint 0 hang")
	s.park(1, time.Minute)
	eventually(t, "the driver hangs", func() bool { return strings.Contains(b.standin.log(), "checkpoint") })
	helper := prototest.Child(s.pid(), func(line string) bool { return strings.Contains(line, cuda.Word) })
	if helper == 0 {
		t.Fatal("nobody speaks with the driver")
	}
	killed := time.Now()
	must(t, s.Kill())
	eventually(t, "it is dead", func() bool { return !s.Alive() })
	t.Logf("its supervisor is dead after %v", time.Since(killed))
	result, err := s.Recover(context.Background())
	must(t, err)
	eventually(t, "what spoke with the driver is gone too", func() bool { return !exists(fmt.Sprintf("/proc/%d", helper)) })
	t.Logf("nothing is left after %v", time.Since(killed))
	if result.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		t.Errorf("ended %v", result)
	}
	s.checkNothingLeft()
}

// TestParkedEndsWithoutGPU: a job that is parked and is ended does not run, nor gets its GPU
// memory back, for that, though a save that was taken back owes it.
func TestParkedEndsWithoutGPU(t *testing.T) {
	b := newGPUBed(t)
	order := b.bed.order(`trap '' TERM
LD_PRELOAD=$PWD/libcuda.so.1 sh -c 'trap "" TERM; echo $$ > uses; while :; do sleep 0.05; done' &
i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`)
	order.Allocation = b.order.Allocation
	s := b.launch(order)
	s.ready()
	s.graded(pb.Checkpointable_CHECKPOINTABLE_LIKELY)
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	wantSaved(t, s.save(&pb.SaveAlloc{Number: 1, Then: freeze}))
	s.park(1, time.Minute)
	s.saysParked(1, true)
	_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	must(t, err)
	counted := b.output()
	_, err = s.client().End(context.Background(), &pb.EndAlloc{GraceS: 3})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 9)
	if b.output() != counted {
		t.Error("it ran when it was ended")
	}
}

// TestCallingOffIsHeard: a driver that hangs is not waited for when the node is lent again,
// and the next order to park finds it well.
func TestCallingOffIsHeard(t *testing.T) {
	for _, fault := range []string{"lock 1 hang", "checkpoint 1 hang"} {
		t.Run(fault, func(t *testing.T) {
			b := newGPUBed(t)
			s := b.launch(b.order)
			s.ready()
			eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
			b.standin.write(t, b.user(), "0")
			b.standin.fault(t, fault)
			s.park(1, time.Minute)
			eventually(t, "the driver hangs", func() bool { return strings.Contains(b.standin.log(), strings.Fields(fault)[0]) })
			s.suspend(2, false)
			s.park(3, 8*time.Second) // less than a hanging driver is waited for
			t.Logf("parked in %v", s.saysParked(3, true))
			if !b.is(cuda.Checkpointed) {
				t.Error("it is parked and has its GPU")
			}
			s.suspend(4, false)
			b.countsOn()
			eventually(t, "it has its GPU back", func() bool { return b.is(cuda.Running) })
			s.cancel()
		})
	}
}

// TestEndingIsNotFrozen: a job that is told to end in the middle of an attempt to park it has
// its time to end.
func TestEndingIsNotFrozen(t *testing.T) {
	s := newSavedAlloc(t)
	s.core.Ending = true
	if err := s.parking.freezeOnce(context.Background()); !errors.Is(err, supervise.ErrEnding) {
		t.Errorf("it answers %v", err)
	}
	s.runs()
}

// TestNobodyAsked: a driver that was not asked in time has not said that there is no GPU.
func TestNobodyAsked(t *testing.T) {
	s := newGPUAlloc(t)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.gpus.Reclaim(over, false, func() error { return nil }); err == nil {
		t.Error("the GPUs are taken, though nobody asked the driver")
	}
	s.want(cuda.Running)
	must(t, s.gpus.Reclaim(context.Background(), false, func() error { return nil }))
	s.want(cuda.Checkpointed)
	must(t, s.gpus.Unpark())
	s.want(cuda.Checkpointed) // they are the owner's
	s.gpus.Release()
	eventually(t, "they are given back", func() bool { return !s.gpus.IsParked() })
	s.want(cuda.Running)
}

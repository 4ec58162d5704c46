package shim

import (
	"context"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestParkedIsSaved: a job that is parked is dumped as it stands, and stays parked. It continues
// here when the node is lent again, and elsewhere from its image.
func TestParkedIsSaved(t *testing.T) {
	b := newSavingBed(t)
	b.giveDevice(t, screenMajor, screenMinor)
	outside := b.settings.DeviceFiles[0].Path
	order := b.counter()
	s := b.launch(order)
	s.ready()
	number := uint32(0)
	for range 3 {
		b.countsOn()
		s.park(2*number+1, time.Minute)
		s.saysParked(2*number+1, true)
		at := b.counts()
		for _, then := range []pb.SaveThen{resume, freeze} {
			number++
			saved := s.save(&pb.SaveAlloc{Number: number, Then: then})
			wantSaved(t, saved)
			if saved.Frozen != (then == freeze) {
				t.Errorf("%s: told %v", then, saved)
			}
			if frozen, err := groupOf(s).Frozen(); err != nil || !frozen || !s.refuses(outside) {
				t.Errorf("%s: it is saved and no longer parked: frozen %v, %v", then, frozen, err)
			}
		}
		_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: number, Abandon: true})
		must(t, err)
		time.Sleep(50 * time.Millisecond)
		if now := b.counts(); now != at {
			t.Fatalf("it was parked at %d, and is at %d", at, now)
		}
		s.suspend(2*number+1, false)
		s.saysParked(2*number+1, false)
		number++
	}
	b.countsOn()
	s.park(100, time.Minute)
	s.saysParked(100, true)
	saved := s.saveAndEnd(100)
	at := b.counts()
	second := b.launch(restored(order, saved.Image))
	second.ready()
	b.countsOn()
	if now := b.counts(); now < at {
		t.Errorf("it went on at %d, not at %d", now, at)
	}
	if second.refuses(outside) {
		t.Error("it goes on, and is refused its device")
	}
	second.cancel()
}

// TestParkedIsSavedWithGPUs: what the job has on its GPUs is in the image, and it has it on
// another GPU, while its own is the owner's.
func TestParkedIsSavedWithGPUs(t *testing.T) {
	b := newGPUBed(t)
	s := b.launch(b.order)
	s.ready()
	s.graded(pb.Checkpointable_CHECKPOINTABLE_LIKELY)
	b.countsOn()
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	s.park(1, time.Minute)
	s.saysParked(1, true)
	b.standin.fault(t, "lock 0 fail 999", "restore 0 fail 999") // it is the owner's: nobody asks for it
	wantSaved(t, s.save(&pb.SaveAlloc{Number: 1, Then: resume}))
	if !b.is(cuda.Checkpointed) {
		t.Error("it is saved, and has the owner's GPU")
	}
	saved := s.saveAndEnd(2)
	b.standin.fault(t)
	b.give(secondGPU, 21)
	second := b.launch(restored(b.order, saved.Image))
	second.ready()
	if !b.is(cuda.Running) {
		t.Error("it is ready and has not its GPU back")
	}
	b.countsOn()
	second.cancel()
}

// TestLentWhileSaved: the node is lent again in each moment of the save of a job that is
// parked. It runs with its devices, whatever became of the save.
func TestLentWhileSaved(t *testing.T) {
	b := newGPUBed(t)
	s := b.launch(b.order)
	s.ready()
	s.graded(pb.Checkpointable_CHECKPOINTABLE_LIKELY)
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	made := 0
	for i := range uint32(10) {
		s.park(2*i+1, time.Minute)
		s.saysParked(2*i+1, true)
		_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: i + 1, Then: resume})
		must(t, err)
		time.Sleep(time.Duration(i) * 40 * time.Millisecond)
		s.suspend(2*i+2, false)
		s.saysParked(2*i+2, false)
		b.countsOn()
		eventually(t, "it has its GPU back", func() bool { return b.is(cuda.Running) })
		saved := s.saysSaved(i + 1)
		t.Logf("save %d: %q", i+1, saved.Error)
		if saved.Image != nil {
			made++
		}
		b.countsOn()
		if !b.is(cuda.Running) || s.refuses(b.settings.DeviceFiles[0].Path) {
			t.Errorf("save %d: it runs without its GPU", i+1)
		}
	}
	if made == 0 || made == 10 {
		t.Errorf("%d images of 10: the moments are not what they should be", made)
	}
	s.cancel()
}

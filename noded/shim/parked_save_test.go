package shim

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// TestParkedWithFullStore: a parked job whose image finds no room, before the first byte or in
// the middle, stays parked and leaves nothing in the store. It is saved once there is room,
// and continues where it stood when the node is lent again.
func TestParkedWithFullStore(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return
	}
	b := newSavingBed(t)
	store := b.settings.Checkpoint.Stores.Own
	must(t, os.MkdirAll(store, 0o700))
	mountTmpfs(t, store, 0o700, "size=64k")
	s := b.launch(b.counter())
	s.ready()
	b.countsOn()
	s.park(1, time.Minute)
	s.saysParked(1, true)
	at := b.counts()
	for i, size := range []string{"64k", "1m", "2m", "3m", "4m"} {
		must(t, unix.Mount("", store, "", unix.MS_REMOUNT, "size="+size))
		saved := s.save(&pb.SaveAlloc{Number: uint32(i + 1), Then: freeze})
		if saved.Image != nil || saved.Frozen {
			if t.Logf("there was room in %s", size); i == 0 {
				t.Error("the store was not full")
			}
			_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: uint32(i + 1), Abandon: true})
			must(t, err)
			break
		}
		if frozen, err := groupOf(s).Frozen(); err != nil || !frozen {
			t.Fatalf("%s: its save failed, and it is frozen %v, %v", size, frozen, err)
		}
		var fs unix.Statfs_t
		must(t, unix.Statfs(store, &fs))
		if used := (fs.Blocks - fs.Bfree) * uint64(fs.Bsize); used > 48<<10 {
			t.Errorf("%s: its save failed, and %d bytes of it are in the store: %s", size, used, saved.Error)
		}
	}
	must(t, unix.Mount("", store, "", unix.MS_REMOUNT, "size=256m"))
	wantSaved(t, s.save(&pb.SaveAlloc{Number: 100, Then: freeze}))
	_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 100, Abandon: true})
	must(t, err)
	if now := b.counts(); now != at {
		t.Fatalf("it was parked at %d, and is at %d", at, now)
	}
	s.suspend(2, false)
	b.countsOn()
	s.cancel()
}

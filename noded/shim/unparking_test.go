package shim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// gpuBed is a bed with a GPU, whose driver is the stand-in, and a job of two
// processes: one counts, and the other uses CUDA.
type gpuBed struct {
	*bed
	standin *standin
	order   *pb.StartAlloc
}

func newGPUBed(t *testing.T) *gpuBed {
	t.Helper()
	b := &gpuBed{bed: newSavingBed(t), standin: newStandin(t)}
	b.standin.write(t, "inside", "")
	library, err := os.ReadFile(b.standin.library)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(b.home, "libcuda.so.1"), library, 0o755))
	b.order = b.bed.order(`LD_PRELOAD=$PWD/libcuda.so.1 sh -c 'echo $$ > uses; while :; do sleep 0.05; done' &
sleep 1000 & kill -STOP $!; echo $! > stopped
i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done`)
	b.give(firstGPU, 20)
	return b
}

// give gives the next run a GPU.
func (b *gpuBed) give(id string, minor uint32) {
	path := filepath.Join(b.dir, id)
	if !exists(path) {
		device(b.t.(*testing.T), path, 7, minor)
	}
	b.settings.DeviceFiles = []bundle.DeviceFile{{Path: path, ContainerPath: "/dev/nvidia0", Type: 'c', Major: 7, Minor: int64(minor), Access: "rw"}}
	b.order.Allocation[0].Devices = []*pb.AllocatedDevice{{DeviceId: id}}
}

// user is the number inside of the process that uses CUDA.
func (b *gpuBed) user() string {
	data, _ := os.ReadFile(filepath.Join(b.home, "uses"))
	return strings.TrimSpace(string(data))
}

func (b *gpuBed) is(state cuda.State) bool {
	return b.standin.read(b.user()) == string('0'+rune(state))
}

// graded waits for a grade of an allocation.
func (s *started) graded(want pb.Checkpointable) *pb.AllocCheckpointable {
	t := s.b.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := s.client().Watch(ctx, &pb.ShimWatchRequest{})
	must(t, err)
	for {
		event, err := stream.Recv()
		must(t, err)
		if checkpointable := event.GetCheckpointable(); checkpointable.GetCheckpointable() == want {
			return checkpointable
		}
	}
}

// saved starts the job, freezes it with an image and ends it there.
func (b *gpuBed) saved() *pb.AllocSaved {
	t := b.t.(*testing.T)
	t.Helper()
	first := b.launch(b.order)
	first.ready()
	first.graded(pb.Checkpointable_CHECKPOINTABLE_LIKELY)
	b.countsOn()
	eventually(t, "it uses CUDA", func() bool { return b.user() != "" })
	b.standin.write(t, b.user(), "0")
	wantSaved(t, first.save(&pb.SaveAlloc{Number: 1, Then: resume}))
	if !b.is(cuda.Running) {
		t.Error("it has not its GPU back")
	}
	b.countsOn()
	first.stopInit()
	saved := first.save(&pb.SaveAlloc{Number: 2, Then: freeze})
	wantSaved(t, saved)
	if !b.is(cuda.Checkpointed) {
		t.Error("it is frozen and holds a GPU")
	}
	_, err := first.client().End(context.Background(), endOrder(first))
	must(t, err)
	first.wait()
	return saved
}

// TestResumesOnAnotherGPU: of two processes the one that uses CUDA has its memory
// back, on another GPU, before the allocation is ready.
func TestResumesOnAnotherGPU(t *testing.T) {
	b := newGPUBed(t)
	saved := b.saved()
	b.give(secondGPU, 21)
	second := b.launch(restored(b.order, saved.Image))
	second.ready()
	if !b.is(cuda.Running) {
		t.Error("it is ready and has not its GPU back")
	}
	from, to := strings.ToLower(strings.ReplaceAll(firstGPU[len("GPU-"):], "-", "")), "0002"
	if pairs := b.standin.read("pairs"); !strings.Contains(pairs, from+">"+to) {
		t.Errorf("the driver was told %q", pairs)
	}
	b.countsOn()
	text, err := os.ReadFile(filepath.Join(b.home, "stopped"))
	must(t, err)
	if !second.isStopped(strings.TrimSpace(string(text))) {
		t.Error("the process that the job itself had stopped runs")
	}
	if !second.isRunning("1") {
		t.Error("process 1 is still stopped, though whoever stopped it cannot continue it")
	}
	// And again, from there.
	wantSaved(t, second.save(&pb.SaveAlloc{Number: 3, Then: resume}))
	b.countsOn()
	_, err = second.client().End(context.Background(), endOrder(second))
	must(t, err)
	second.wait()
}

// TestNoDriver: device files alone are no driver, and a job that has them is told
// so early.
func TestNoDriver(t *testing.T) {
	b := &gpuBed{bed: newSavingBed(t)}
	if users, _ := filepath.Glob("/dev/nvidia*"); len(users) > 0 {
		t.Skip("needs a machine without NVIDIA's driver: it is missed here")
	}
	b.order = b.bed.order("sleep 1000")
	b.give("gpu0", 20)
	s := b.launch(b.order)
	s.ready()
	checkpointable := s.graded(pb.Checkpointable_CHECKPOINTABLE_NO)
	if !strings.Contains(checkpointable.Reason, "no CUDA driver: libcuda.so.1") {
		t.Errorf("graded %v", checkpointable)
	}
	t.Log(checkpointable.Reason)
	if saved := s.save(&pb.SaveAlloc{Number: 1, Then: freeze}); saved.Image != nil || saved.Error != checkpointable.Reason {
		t.Errorf("told %v", saved)
	}
	_, err := s.client().End(context.Background(), endOrder(s))
	must(t, err)
	s.wait()
}

// TestGPUsDoNotFit: an image is not restored to other GPUs than its own kind, and
// not where the driver does not give back; what is in the way is said, and what
// does not use CUDA has not run.
func TestGPUsDoNotFit(t *testing.T) {
	b := newGPUBed(t)
	saved := b.saved()
	at := b.counts()
	b.give(secondGPU, 21)
	settings := b.settings
	for name, row := range map[string]struct {
		change func(*pb.StartAlloc)
		want   string
	}{
		"another model":    {func(*pb.StartAlloc) { b.standin.write(t, "model", " NVL") }, "saved from a NVIDIA H100"},
		"another driver":   {func(*pb.StartAlloc) { b.standin.write(t, "driver", "580.95.05") }, "driver 610.65.06, and here is 580.95.05"},
		"too old a driver": {func(*pb.StartAlloc) { b.standin.write(t, "driver", "570.86.15") }, "driver"},
		"no GPU": {func(o *pb.StartAlloc) {
			o.Allocation[0].Devices, b.settings.DeviceFiles = nil, nil
		}, "this run has none"},
		"no driver": {func(*pb.StartAlloc) { b.standin.fault(t, "init 0 fail 100") }, "CUDA_ERROR_NO_DEVICE"},
		"restore":   {func(*pb.StartAlloc) { b.standin.fault(t, "restore 0 fail 999") }, "cannot use its GPU"},
		"unlock":    {func(*pb.StartAlloc) { b.standin.fault(t, "unlock 0 fail 999") }, "cannot use its GPU"},
	} {
		t.Run(name, func(t *testing.T) {
			b.settings = settings
			for _, file := range []string{"model", "driver", "mig"} {
				_ = os.Remove(filepath.Join(b.standin.dir, file))
			}
			b.standin.fault(t)
			b.standin.write(t, b.user(), "2")
			next := restored(b.order, saved.Image)
			next.Alloc.Epoch += lastJob.Add(1)
			row.change(next)
			result := b.launch(next).wait()
			if result.Cause != pb.EndCause_END_CAUSE_RESTORE_FAILED || !strings.Contains(result.Detail, row.want) {
				t.Errorf("ended %v", result)
			}
			t.Log(result.Detail)
		})
		if b.counts() != at {
			t.Fatalf("%s: it ran", name)
		}
	}
}

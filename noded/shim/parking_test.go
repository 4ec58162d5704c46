package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/boottime"
	"github.com/gleaner-hpc/gleaner/noded/lease"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestParked: what is on GPUs is taken before the job is stopped, all processes
// are locked before one is emptied, and it is given back once the job runs on.
func TestParked(t *testing.T) {
	s := newGPUAlloc(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, resume)
	<-s.saver.began
	s.want(cuda.Checkpointed)
	want := fmt.Sprintf("lock %[1]d, lock %[2]d, checkpoint %[1]d, checkpoint %[2]d", min(s.users[0], s.users[1]), max(s.users[0], s.users[1]))
	if got := s.standin.log(); got != want {
		t.Errorf("the driver was asked %s, not %s", got, want)
	}
	close(s.saver.hold)
	if saved := s.told(1); saved.Image == nil || saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_YES {
		t.Errorf("told %v", saved)
	}
	s.want(cuda.Running)
	s.runs()
	if got := s.images.last.Machine.GPUs; len(got) != 1 || got[0] != (checkpoint.GPU{UUID: firstGPU, Model: "NVIDIA H100", Driver: "610.65.06"}) {
		t.Errorf("the manifest has %v", got)
	}
	var parked cuda.Parked
	if err := json.Unmarshal([]byte(s.images.dir["parked.json"]), &parked); err != nil || len(parked.Processes) != 2 {
		t.Errorf("the image has %v, %v", parked, err)
	}
}

// TestParkedIsFrozen: a job that is frozen with its image holds no GPU, until it is
// taken back.
func TestParkedIsFrozen(t *testing.T) {
	s := newGPUAlloc(t)
	s.save(1, freeze)
	if saved := s.told(1); !saved.Frozen {
		t.Fatalf("told %v", saved)
	}
	s.frozen()
	s.want(cuda.Checkpointed)
	// The helper dies meanwhile: another one continues.
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(os.Getpid()), "-f", cuda.Word).Output()
	must(t, err)
	for _, pid := range strings.Fields(string(out)) {
		var number int
		_, err := fmt.Sscan(pid, &number)
		must(t, err)
		must(t, unix.Kill(number, unix.SIGKILL))
	}
	s.takeSave(&pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Abandon: true})
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.IsParked() })
	s.want(cuda.Running)
}

// hangs is after how long a driver hangs, where that is waited for.
const hangs = 2 * time.Second

// TestParkingFails: whatever the driver does, and whatever was asked, all
// processes have their GPUs again and the job runs on.
func TestParkingFails(t *testing.T) {
	for _, fault := range []string{"lock 2 fail 801", "lock 1 crash", "lock 2 hang", "checkpoint 1 fail 2", "checkpoint 2 latecrash", "checkpoint 2 lie", "init 1 fail 999", "state 3 crash"} {
		t.Run(fault, func(t *testing.T) {
			var answer []time.Duration
			if strings.HasSuffix(fault, "hang") {
				answer = append(answer, hangs)
			}
			s := newGPUAlloc(t, answer...)
			s.standin.fault(t, fault)
			s.save(1, freeze)
			saved := s.told(1)
			if saved.Image != nil || saved.Error == "" || saved.Frozen || saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NOT_NOW {
				t.Errorf("told %v", saved)
			}
			t.Log(saved.Error)
			if s.saver.calls > 0 {
				t.Error("it was dumped all the same")
			}
			s.want(cuda.Running)
			s.runs()
			s.clean()
			s.standin.fault(t)
			s.save(2, resume)
			if saved := s.told(2); saved.Image == nil {
				t.Errorf("the next time: %v", saved)
			}
			s.want(cuda.Running)
		})
	}
}

// TestGivingBackFails: once, and it is tried again at once; for long, and the
// job gets its GPUs as soon as the driver lets it.
func TestGivingBackFails(t *testing.T) {
	for _, call := range []string{"restore", "unlock"} {
		t.Run(call, func(t *testing.T) {
			s := newGPUAlloc(t)
			s.gpus.RetryPause = 50 * time.Millisecond
			s.standin.fault(t, call+" 1 fail 999", call+" 3 latecrash")
			s.save(1, resume)
			if saved := s.told(1); saved.Image == nil {
				t.Errorf("told %v", saved)
			}
			s.want(cuda.Running)
			s.standin.fault(t, call+" 0 fail 999")
			s.save(2, resume)
			if saved := s.told(2); saved.Image != nil || !strings.Contains(saved.Error, "cannot use its GPU") {
				t.Errorf("told %v", saved)
			}
			s.runs()
			s.standin.fault(t)
			eventually(t, "it is given back", func() bool { return !s.gpus.IsParked() })
			s.want(cuda.Running)
		})
	}
}

// TestSaveFailsWithGPUs: what fails after parking is no reason to keep anything.
func TestSaveFailsWithGPUs(t *testing.T) {
	for name, breaks := range map[string]func(*gpuAlloc){
		"dump": func(s *gpuAlloc) { s.saver.err = errors.New("broken") },
		"pack": func(s *gpuAlloc) { s.images.err = errors.New("broken") },
	} {
		for _, then := range []pb.SaveThen{resume, freeze} {
			t.Run(name+" "+then.String(), func(t *testing.T) {
				s := newGPUAlloc(t)
				breaks(s)
				s.save(1, then)
				if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "broken") {
					t.Errorf("told %v", saved)
				}
				s.want(cuda.Running)
				s.runs()
			})
		}
	}
}

// TestParkedAndSuspended: a job that is frozen for another reason is not parked,
// since that would not end; one that is suspended while it is frozen with its image
// gets its GPUs back when it runs again.
func TestParkedAndSuspended(t *testing.T) {
	s := newGPUAlloc(t)
	s.core.Lease = lease.Lease{Begun: boottime.Now(), Runs: true}
	suspend := func(number uint32, suspended bool) {
		s.suspend(&pb.SuspendAlloc{Alloc: s.order.Alloc, Number: number, Suspended: suspended})
		s.keepLease()
	}
	suspend(1, true)
	s.frozen()
	s.save(1, freeze)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "suspended") {
		t.Errorf("told %v", saved)
	}
	s.want(cuda.Running)
	suspend(2, false)
	s.runs()
	s.save(2, freeze)
	s.told(2)
	suspend(3, true)
	s.save(2, resume)
	eventually(t, "the save lets go", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.core.Held })
	s.frozen()
	s.want(cuda.Checkpointed)
	suspend(4, false)
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.IsParked() })
	s.want(cuda.Running)
}

// TestParkedLeaseEnds: a lease that ends while the driver works stops the job at
// once; with its lease it has its GPUs back.
func TestParkedLeaseEnds(t *testing.T) {
	s := newGPUAlloc(t, hangs)
	s.gpus.RetryPause = 50 * time.Millisecond
	s.core.Lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	ends := func(in time.Duration) {
		s.mu.Lock()
		s.core.Lease.End = boottime.Now() + in
		s.mu.Unlock()
		s.keepLease()
	}
	s.gpus.Driver.(*cuda.Helper).Close()
	s.standin.fault(t, "checkpoint 2 hang")
	s.save(1, freeze)
	eventually(t, "the driver hangs", func() bool { return strings.Count(s.standin.log(), "checkpoint") == 2 })
	ends(0)
	s.frozen()
	if saved := s.told(1); saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	s.standin.fault(t)
	ends(time.Hour)
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.IsParked() })
	s.want(cuda.Running)
}

// TestNoRoomToPark: what comes from GPUs needs room in the image too.
func TestNoRoomToPark(t *testing.T) {
	s := newGPUAlloc(t)
	s.facts.Used = map[int]uint64{s.users[0]: 1 << 50}
	s.save(1, resume)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, unix.ENOSPC.Error()) {
		t.Errorf("told %v", saved)
	}
	s.want(cuda.Running)
}

// TestGPUGrades: whether the memory of a job's GPUs can be saved is known early,
// with the true reason.
func TestGPUGrades(t *testing.T) {
	for name, row := range map[string]struct {
		change         func(*gpuAlloc)
		checkpointable pb.Checkpointable
		reason         string
	}{
		"good": {func(*gpuAlloc) {}, pb.Checkpointable_CHECKPOINTABLE_LIKELY, ""},
		"no driver": {func(s *gpuAlloc) {
			s.gpus.Driver = cuda.NewHelper(cuda.Options{Command: []string{"/proc/self/exe", cuda.Word}, Library: "libcuda.so.nowhere"})
		}, pb.Checkpointable_CHECKPOINTABLE_NO, "no CUDA driver: libcuda.so.nowhere"},
		"old driver": {func(s *gpuAlloc) {
			s.gpus.Driver = cuda.NewHelper(cuda.Options{Command: []string{"/proc/self/exe", cuda.Word}, Library: oldDriver(s.t)})
		}, pb.Checkpointable_CHECKPOINTABLE_NO, "it has no cuCheckpointProcessGetState"},
		"old version": {func(s *gpuAlloc) { s.standin.write(s.t, "driver", "565.57.01") }, pb.Checkpointable_CHECKPOINTABLE_NO, "driver 565.57.01 cannot"},
		"no GPU":      {func(s *gpuAlloc) { s.standin.fault(s.t, "init 0 fail 100") }, pb.Checkpointable_CHECKPOINTABLE_NO, "CUDA_ERROR_NO_DEVICE (100)"},
		"it crashes":  {func(s *gpuAlloc) { s.standin.fault(s.t, "init 1 crash") }, pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, "it died"},
		"MIG":         {func(s *gpuAlloc) { s.standin.write(s.t, "mig", "1") }, pb.Checkpointable_CHECKPOINTABLE_NO, "slices (MIG)"},
		"by hand":     {func(s *gpuAlloc) { s.gpus.IDs = []string{"gpu0"} }, pb.Checkpointable_CHECKPOINTABLE_NO, "named in gnoded.toml"},
		"it does not say": {func(s *gpuAlloc) {
			s.gpus.Facts = func(context.Context, []string) (cuda.Facts, error) { return cuda.Facts{}, errors.New("GPU is lost") }
		}, pb.Checkpointable_CHECKPOINTABLE_NOT_NOW, "GPU is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGPUAlloc(t)
			row.change(s)
			s.core.Checkpointable = s.firstCheckpointable()
			if first := s.core.Checkpointable; first.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_NOT_NOW || !strings.Contains(first.Reason, "being asked") {
				t.Errorf("the first grade is %v", first)
			}
			s.checkpointableGPUs()
			if got := s.core.Checkpointable; got.Checkpointable != row.checkpointable || !strings.Contains(got.Reason, row.reason) || (got.Reason == "") != (row.reason == "") {
				t.Fatalf("graded %v", got)
			}
			t.Log(s.core.Checkpointable.Reason)
			s.standin.fault(t)
			s.save(1, resume)
			saved := s.told(1)
			if refused := saved.Image == nil; row.checkpointable == pb.Checkpointable_CHECKPOINTABLE_NO && (!refused || s.saver.calls > 0) {
				t.Errorf("saved: %v", saved)
			}
			s.want(cuda.Running)
			s.runs()
		})
	}
}

// oldDriver is a library without the calls.
func oldDriver(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader("int cuInit(unsigned f){return 0;} int cuDriverGetVersion(int*v){return 0;} int cuGetErrorName(int c,const char**n){return 1;}")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestDumpInTheWay: a dump that takes longer than the owner waits is given up, and the job is
// parked, not killed.
func TestDumpInTheWay(t *testing.T) {
	s := newGPUAlloc(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, resume)
	<-s.saver.began
	within := 10 * time.Second // most of which is for this machine
	s.suspend(&pb.SuspendAlloc{Number: 1, Suspended: true, Park: true, WithinMs: uint32(within.Milliseconds())})
	if saved := s.told(1); saved.Image != nil || saved.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED {
		t.Errorf("told %v", saved)
	}
	eventually(t, "it is parked", s.staysParked)
	if s.endAsked() {
		t.Error("it is ended")
	}
	s.frozen()
	must(t, s.group.Thaw(t.Context())) // so that it can be killed
}

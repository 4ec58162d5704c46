package shim

import (
	"context"
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
	s := newGPUPart(t)
	s.saver.hold, s.saver.began = make(chan struct{}), make(chan struct{})
	s.save(1, goOn)
	<-s.saver.began
	s.want(cuda.Checkpointed)
	want := fmt.Sprintf("lock %[1]d, lock %[2]d, checkpoint %[1]d, checkpoint %[2]d", min(s.users[0], s.users[1]), max(s.users[0], s.users[1]))
	if got := s.standin.log(); got != want {
		t.Errorf("the driver was asked %s, not %s", got, want)
	}
	close(s.saver.hold)
	if saved := s.told(1); saved.Image == nil || saved.Grade != pb.SaveGrade_SAVE_GRADE_YES {
		t.Errorf("told %v", saved)
	}
	s.want(cuda.Running)
	s.runs()
	if got := s.images.last.Machine.GPUs; len(got) != 1 || got[0] != (checkpoint.GPU{UUID: firstGPU, Model: "NVIDIA H100", Driver: "580.65.06"}) {
		t.Errorf("the manifest has %v", got)
	}
	parked, err := decodeParked([]byte(s.images.dir[parkedPart]))
	if err != nil || len(parked.Processes) != 2 {
		t.Errorf("the image has %v, %v", parked, err)
	}
}

// TestParkedStands: a job that stands with its image holds no GPU, until it is
// taken back.
func TestParkedStands(t *testing.T) {
	s := newGPUPart(t)
	s.save(1, stand)
	if saved := s.told(1); !saved.Stands {
		t.Fatalf("told %v", saved)
	}
	s.stands()
	s.want(cuda.Checkpointed)
	// The helper dies meanwhile: another one goes on.
	out, err := exec.Command("pgrep", "-P", fmt.Sprint(os.Getpid()), "-f", cuda.Word).Output()
	must(t, err)
	for _, pid := range strings.Fields(string(out)) {
		var number int
		_, err := fmt.Sscan(pid, &number)
		must(t, err)
		must(t, unix.Kill(number, unix.SIGKILL))
	}
	s.takeSave(&pb.SavePart{Part: s.order.Part, Number: 1, Abandon: true})
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.isParked() })
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
			s := newGPUPart(t, answer...)
			s.standin.fault(t, fault)
			s.save(1, stand)
			saved := s.told(1)
			if saved.Image != nil || saved.Error == "" || saved.Stands || saved.Grade != pb.SaveGrade_SAVE_GRADE_NOT_NOW {
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
			s.save(2, goOn)
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
	former := repayPause
	repayPause = 50 * time.Millisecond
	t.Cleanup(func() { repayPause = former })
	for _, call := range []string{"restore", "unlock"} {
		t.Run(call, func(t *testing.T) {
			s := newGPUPart(t)
			t.Cleanup(s.gpus.repayer.stop)
			s.standin.fault(t, call+" 1 fail 999", call+" 3 latecrash")
			s.save(1, goOn)
			if saved := s.told(1); saved.Image == nil {
				t.Errorf("told %v", saved)
			}
			s.want(cuda.Running)
			s.standin.fault(t, call+" 0 fail 999")
			s.save(2, goOn)
			if saved := s.told(2); saved.Image != nil || !strings.Contains(saved.Error, "cannot use its GPU") {
				t.Errorf("told %v", saved)
			}
			s.runs()
			s.standin.fault(t)
			eventually(t, "it is given back", func() bool { return !s.gpus.isParked() })
			s.want(cuda.Running)
		})
	}
}

// TestSaveFailsWithGPUs: what fails after parking is no reason to keep anything.
func TestSaveFailsWithGPUs(t *testing.T) {
	for name, breaks := range map[string]func(*gpuPart){
		"dump": func(s *gpuPart) { s.saver.err = errors.New("broken") },
		"pack": func(s *gpuPart) { s.images.err = errors.New("broken") },
	} {
		for _, then := range []pb.SaveThen{goOn, stand} {
			t.Run(name+" "+then.String(), func(t *testing.T) {
				s := newGPUPart(t)
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

// TestParkedAndSuspended: a job that stands for another reason is not parked,
// since that would not end; one that is suspended while it stands with its image
// gets its GPUs back when it runs again.
func TestParkedAndSuspended(t *testing.T) {
	s := newGPUPart(t)
	t.Cleanup(s.gpus.repayer.stop)
	s.lease = lease.Lease{Begun: boottime.Now(), Runs: true}
	suspend := func(number uint32, suspended bool) {
		s.suspend(&pb.SuspendPart{Part: s.order.Part, Number: number, Suspended: suspended})
		s.keepLease()
	}
	suspend(1, true)
	s.stands()
	s.save(1, stand)
	if saved := s.told(1); saved.Image != nil || !strings.Contains(saved.Error, "suspended") {
		t.Errorf("told %v", saved)
	}
	s.want(cuda.Running)
	suspend(2, false)
	s.runs()
	s.save(2, stand)
	s.told(2)
	suspend(3, true)
	s.save(2, goOn)
	eventually(t, "the save lets go", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.held })
	s.stands()
	s.want(cuda.Checkpointed)
	suspend(4, false)
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.isParked() })
	s.want(cuda.Running)
}

// TestParkedLeaseEnds: a lease that ends while the driver works stops the job at
// once; with its lease it has its GPUs back.
func TestParkedLeaseEnds(t *testing.T) {
	former := repayPause
	repayPause = 50 * time.Millisecond
	t.Cleanup(func() { repayPause = former })
	s := newGPUPart(t, hangs)
	t.Cleanup(s.gpus.repayer.stop)
	s.lease = lease.Lease{Fence: true, Begun: boottime.Now(), End: boottime.Now() + time.Hour, Margin: time.Minute, Runs: true}
	ends := func(in time.Duration) {
		s.mu.Lock()
		s.lease.End = boottime.Now() + in
		s.mu.Unlock()
		s.keepLease()
	}
	s.gpus.driver.(*cuda.Helper).Close()
	s.standin.fault(t, "checkpoint 2 hang")
	s.save(1, stand)
	eventually(t, "the driver hangs", func() bool { return strings.Count(s.standin.log(), "checkpoint") == 2 })
	ends(0)
	s.stands()
	if saved := s.told(1); saved.Image != nil {
		t.Errorf("told %v", saved)
	}
	s.standin.fault(t)
	ends(time.Hour)
	s.runs()
	eventually(t, "it is given back", func() bool { return !s.gpus.isParked() })
	s.want(cuda.Running)
}

// TestNoMemoryToPark: what does not fit into the job's memory would end it.
func TestNoMemoryToPark(t *testing.T) {
	s := newGPUPart(t)
	s.facts.Used = map[int]uint64{s.users[0]: 1 << 50}
	facts, err := s.gpus.facts(context.Background(), s.gpus.ids)
	must(t, err)
	if facts.FreeBytes, err = s.freeMemory(); err != nil || facts.FreeBytes > s.own.MemoryBytes {
		t.Fatalf("%d bytes are free, %v", facts.FreeBytes, err)
	}
	err = refuse(cuda.Obstacles(facts, []cuda.Process{{PID: s.users[0], Devices: true}}))
	if err == nil || lasts(err) || !strings.Contains(err.Error(), "--mem") {
		t.Errorf("%v", err)
	}
	if err := s.roomToSave(cuda.Need(facts, []cuda.Process{{PID: s.users[0]}})); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
}

// TestGPUGrades: whether the memory of a job's GPUs can be saved is known early,
// with the true reason.
func TestGPUGrades(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*gpuPart)
		grade  pb.SaveGrade
		reason string
	}{
		"good": {func(*gpuPart) {}, pb.SaveGrade_SAVE_GRADE_LIKELY, ""},
		"no driver": {func(s *gpuPart) {
			s.gpus.driver = cuda.NewHelper(cuda.Options{Command: []string{self, cuda.Word}, Library: "libcuda.so.nowhere"})
		}, pb.SaveGrade_SAVE_GRADE_NO, "no CUDA driver: libcuda.so.nowhere"},
		"old driver": {func(s *gpuPart) {
			s.gpus.driver = cuda.NewHelper(cuda.Options{Command: []string{self, cuda.Word}, Library: oldDriver(s.t)})
		}, pb.SaveGrade_SAVE_GRADE_NO, "it has no cuCheckpointProcessGetState"},
		"old version": {func(s *gpuPart) { s.standin.write(s.t, "driver", "565.57.01") }, pb.SaveGrade_SAVE_GRADE_NO, "driver 565.57.01 cannot"},
		"no GPU":      {func(s *gpuPart) { s.standin.fault(s.t, "init 0 fail 100") }, pb.SaveGrade_SAVE_GRADE_NO, "CUDA_ERROR_NO_DEVICE (100)"},
		"it crashes":  {func(s *gpuPart) { s.standin.fault(s.t, "init 1 crash") }, pb.SaveGrade_SAVE_GRADE_NOT_NOW, "it died"},
		"MIG":         {func(s *gpuPart) { s.standin.write(s.t, "mig", "1") }, pb.SaveGrade_SAVE_GRADE_NO, "slices (MIG)"},
		"by hand":     {func(s *gpuPart) { s.gpus.ids = []string{"gpu0"} }, pb.SaveGrade_SAVE_GRADE_NO, "named in gnoded.toml"},
		"it does not say": {func(s *gpuPart) {
			s.gpus.facts = func(context.Context, []string) (cuda.Facts, error) { return cuda.Facts{}, errors.New("GPU is lost") }
		}, pb.SaveGrade_SAVE_GRADE_NOT_NOW, "GPU is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGPUPart(t)
			row.change(s)
			t.Cleanup(s.closeGPUs)
			s.saves.grade = s.firstGrade()
			if first := s.saves.grade; first.Grade != pb.SaveGrade_SAVE_GRADE_NOT_NOW || !strings.Contains(first.Reason, "being asked") {
				t.Errorf("the first grade is %v", first)
			}
			s.gradeGPUs()
			if got := s.saves.grade; got.Grade != row.grade || !strings.Contains(got.Reason, row.reason) || (got.Reason == "") != (row.reason == "") {
				t.Fatalf("graded %v", got)
			}
			t.Log(s.saves.grade.Reason)
			s.standin.fault(t)
			s.save(1, goOn)
			saved := s.told(1)
			if refused := saved.Image == nil; row.grade == pb.SaveGrade_SAVE_GRADE_NO && (!refused || s.saver.calls > 0) {
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

// FuzzParked: what is read of an image names each process once.
func FuzzParked(f *testing.F) {
	for _, seed := range []string{`{"processes":[{"pid":7,"inside":3,"started":5,"devices":true}]}`, `{}`, `{"processes":[{"inside":-1}]}`, `{"processes":[{"inside":2},{"inside":2}]}`, "[", `{"x":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parked, err := decodeParked(data)
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		seen := map[int]bool{}
		for _, p := range parked.Processes {
			if p.Inside <= 0 || seen[p.Inside] {
				t.Fatalf("%+v", parked)
			}
			seen[p.Inside] = true
		}
		if len(seen) == 0 {
			t.Fatal("it names none")
		}
	})
}

package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint/cuda"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// GPUs that the stand-in's machines have.
const (
	firstGPU  = "GPU-00112233-4455-6677-8899-aabbccddee01"
	secondGPU = "GPU-00112233-4455-6677-8899-aabbccddee02"
)

// standinMain is the test program as the processes that a supervisor starts to
// speak with the driver. What is known of GPUs is in files of $STANDIN.
func standinMain(arguments []string) error {
	if arguments[0] == cuda.Word {
		return cuda.Main()
	}
	return json.NewEncoder(os.Stdout).Encode(standin{dir: os.Getenv("STANDIN")}.facts(arguments[1:]))
}

// standin is the driver of checkpoint/cuda/testdata/standin.c, which says what
// the files of its directory mean.
type standin struct {
	dir     string
	library string
}

func (s standin) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(s.dir, name))
	return strings.TrimSpace(string(data))
}

func (s standin) facts(ids []string) cuda.Facts {
	facts := cuda.Facts{Driver: "610.65.06", Used: map[int]uint64{}}
	if driver := s.read("driver"); driver != "" {
		facts.Driver = driver
	}
	for _, id := range ids {
		facts.GPUs = append(facts.GPUs, cuda.GPU{UUID: id, Model: "NVIDIA H100" + s.read("model"), MIG: s.read("mig") != ""})
	}
	return facts
}

var standinBuilt struct {
	once sync.Once
	dir  string
	err  error
}

// newStandin makes the library be found under its name by what is started from
// now on, and keeps what it knows in a directory of its own.
func newStandin(t *testing.T) *standin {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("needs a C compiler, to make a stand-in for the driver's library: %v", err)
	}
	standinBuilt.once.Do(func() {
		standinBuilt.dir, standinBuilt.err = os.MkdirTemp("", "gleaner-libcuda-")
		if standinBuilt.err == nil {
			out, err := exec.Command(compiler, "-shared", "-fPIC", "-O1", "-o", filepath.Join(standinBuilt.dir, "libcuda.so.1"), "../../checkpoint/cuda/testdata/standin.c").CombinedOutput()
			if err != nil {
				standinBuilt.err = fmt.Errorf("%w\n%s", err, out)
			}
		}
	})
	must(t, standinBuilt.err)
	s := &standin{dir: t.TempDir(), library: filepath.Join(standinBuilt.dir, "libcuda.so.1")}
	must(t, os.Chmod(standinBuilt.dir, 0o755))
	t.Setenv("STANDIN", s.dir)
	t.Setenv("LD_LIBRARY_PATH", standinBuilt.dir)
	t.Cleanup(func() {
		if wrong := s.read("wrong"); wrong != "" {
			t.Errorf("the driver was called wrongly:\n%s", wrong)
		}
	})
	return s
}

func removeStandin() {
	if standinBuilt.dir != "" {
		_ = os.RemoveAll(standinBuilt.dir)
	}
}

func (s standin) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text+"\n"), 0o600))
}

// fault makes the driver misbehave from now on; without lines it is well again.
func (s standin) fault(t *testing.T, lines ...string) {
	t.Helper()
	counts, _ := filepath.Glob(filepath.Join(s.dir, "count.*"))
	for _, path := range counts {
		must(t, os.Remove(path))
	}
	s.write(t, "fault", strings.Join(lines, "\n"))
}

// state of a process, as the driver has it.
func (s standin) state(pid int) cuda.State {
	n, err := strconv.Atoi(s.read(strconv.Itoa(pid)))
	if err != nil {
		return -1
	}
	return cuda.State(n)
}

func (s standin) log() string { return strings.ReplaceAll(s.read("log"), "\n", ", ") }

// gpuAlloc is an allocation whose job has two processes that use CUDA and one that does
// not.
type gpuAlloc struct {
	*savedAlloc
	standin *standin
	users   []int
	facts   cuda.Facts // beside what the stand-in says
}

// newGPUAlloc starts them. answer is how long the driver may take for what takes
// no time: short only where it hangs, and the test waits for that.
func newGPUAlloc(t *testing.T, answer ...time.Duration) *gpuAlloc {
	t.Helper()
	standin := newStandin(t)
	s := &gpuAlloc{savedAlloc: newSavedAlloc(t), standin: standin}
	self, err := os.Executable()
	must(t, err)
	s.own.Devices = []*pb.AllocatedDevice{{DeviceId: firstGPU}}
	s.settings.DeviceFiles = []bundle.DeviceFile{{Path: "/dev/nvidia0"}}
	s.gpus = s.newGPUs()
	s.maker.GPUs = s.gpus
	s.gpus.Driver = cuda.NewHelper(cuda.Options{
		Command: []string{self, cuda.Word}, LockTimeout: 50 * time.Millisecond, CopyTimeout: 50 * time.Millisecond,
		AnswerTime: append(answer, prototest.Patience)[0], StartTime: prototest.Patience,
	})
	s.gpus.Facts = func(_ context.Context, ids []string) (cuda.Facts, error) {
		facts := standin.facts(ids)
		if s.facts.Used != nil {
			facts.Used = s.facts.Used
		}
		return facts, nil
	}
	t.Cleanup(s.gpus.Close)
	for range 2 {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+standin.library)
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		must(t, s.group.Add(cmd.Process.Pid))
		standin.write(t, strconv.Itoa(cmd.Process.Pid), "0")
		s.users = append(s.users, cmd.Process.Pid)
	}
	eventually(t, "the library is loaded", func() bool {
		users, err := cuda.Users("/proc", s.users)
		return err == nil && len(users) == 2
	})
	return s
}

// want checks in which state the driver has the job's processes.
func (s *gpuAlloc) want(state cuda.State) {
	s.t.Helper()
	for _, pid := range s.users {
		if is := s.standin.state(pid); is != state {
			s.t.Errorf("process %d is %s and not %s", pid, is, state)
		}
	}
}

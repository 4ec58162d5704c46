package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/socket"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/step"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// pid finds the supervisor's process.
func (s *started) pid() int {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		data, _ := os.ReadFile(path)
		arguments := strings.Split(string(data), "\x00")
		if len(arguments) > 2 && arguments[1] == client.Word && arguments[2] == string(s.dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	s.b.t.Fatal("the supervisor has no process")
	return 0
}

// inside is a path in the allocation's directory as its supervisor sees it, which alone
// has the job's disk mounted there.
func (s *started) inside(names ...string) string {
	return fmt.Sprintf("/proc/%d/root%s", s.pid(), s.dir.Path(names...))
}

func (s *started) processes() []int {
	group, err := cgroup.Open(parent + "/" + s.dir.ID())
	if errors.Is(err, cgroup.ErrNotFound) {
		return nil
	}
	must(s.b.t, err)
	pids, err := group.Procs()
	if !errors.Is(err, cgroup.ErrNotFound) { // it may go between the two
		must(s.b.t, err)
	}
	return pids
}

// runsProgram says whether one of the job's processes has begun to run a program
// of that name: a shell's child is a process before it is one.
func (s *started) runsProgram(name string) bool {
	return slices.ContainsFunc(s.processes(), func(pid int) bool {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may be gone
		return strings.TrimSpace(string(comm)) == name
	})
}

// When a supervisor is killed its job dies with it, and Recover cleans up.
func TestSupervisorKilled(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("setsid sleep 1000 & echo up; exec sleep 1000"))
	s.ready()
	eventually(t, "the script runs", func() bool { return b.output() == "up\n" })
	if _, err := s.Recover(context.Background()); !errors.Is(err, bundle.ErrAlive) {
		t.Errorf("Recover of a living supervisor: %v", err)
	}
	if err := s.Forget(); !errors.Is(err, bundle.ErrAlive) {
		t.Errorf("Forget of a living supervisor: %v", err)
	}
	must(t, unix.Kill(s.pid(), unix.SIGKILL))
	eventually(t, "its processes are gone", func() bool { return len(s.processes()) == 0 })
	eventually(t, "its lock is free", func() bool { return !s.Alive() })
	if _, err := s.Result(); !errors.Is(err, bundle.ErrNoResult) {
		t.Errorf("Result: %v", err)
	}
	result, err := s.Recover(context.Background())
	must(t, err)
	wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
	if result.StartMs == 0 || result.Usage.GetPeakMemoryBytes() == 0 {
		t.Errorf("result %v", result)
	}
	s.checkNothingLeft()
	again, err := s.Recover(context.Background())
	if err != nil || again.EndMs != result.EndMs {
		t.Errorf("Recover again: %v, %v", again, err)
	}
	must(t, s.Forget())
	if _, err := os.Lstat(string(s.dir)); err == nil {
		t.Error("its directory is left")
	}
	must(t, s.Forget())
}

// A supervisor that is killed at any moment of its making leaves nothing that
// Recover does not remove.
func TestSupervisorKilledWhileStarting(t *testing.T) {
	b := newBed(t)
	for delay := range 12 {
		s := b.launch(b.order("sleep 1000"))
		time.Sleep(time.Duration(delay) * 6 * time.Millisecond)
		must(t, unix.Kill(s.pid(), unix.SIGKILL))
		eventually(t, "its lock is free", func() bool { return !s.Alive() })
		result, err := s.Recover(context.Background())
		must(t, err)
		wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		s.checkNothingLeft()
		eventually(t, "its processes are gone", func() bool { return len(s.processes()) == 0 })
	}
}

// After a restart the daemon finds its allocations, and Launch starts nothing twice.
func TestListAndLaunchAgain(t *testing.T) {
	b := newBed(t)
	order := b.order("echo ran; while [ ! -e $HOME/end ]; do sleep 0.02; done; exit 9")
	order.Spec.OpenMode = pb.OpenMode_OPEN_MODE_APPEND
	s := b.launch(order)
	s.ready()
	for range 3 {
		again := b.launch(order)
		if !again.Alive() {
			t.Error("the handle of a running allocation is not alive")
		}
	}
	handles, _, err := client.List(b.state, parent)
	if err != nil || len(handles) != 1 || handles[0].Order().Alloc.Job != order.Alloc.Job {
		t.Fatalf("List: %v, %v", handles, err)
	}
	found := b.follow(handles[0])
	found.ready() // a late watcher is told what happened before
	must(t, os.WriteFile(filepath.Join(b.home, "end"), nil, 0o644))
	wantExit(t, found.wait(), 9)
	if result, err := b.launch(order).Result(); err != nil || result.ExitCode != 9 {
		t.Errorf("Launch of an ended allocation: %v, %v", result, err)
	}
	if out := b.output(); out != "ran\n" {
		t.Errorf("output %q", out)
	}
	must(t, found.Forget())
	if handles, _, err := client.List(b.state, parent); err != nil || len(handles) != 0 {
		t.Errorf("after Forget: %v, %v", handles, err)
	}
}

func TestSupervisorTerminated(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("exec sleep 1000"))
	s.ready()
	must(t, unix.Kill(s.pid(), unix.SIGTERM))
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED || !strings.Contains(result.Detail, "SIGTERM") {
		t.Errorf("ended %v", result)
	}
}

func TestParallel(t *testing.T) {
	b := newBed(t)
	const jobs = 20
	var wait sync.WaitGroup
	var mu sync.Mutex
	codes := map[uint32]int{}
	for i := range jobs {
		order := b.order(fmt.Sprintf("exit %d", i))
		order.Spec.StandardOutput = "/dev/null"
		wait.Go(func() {
			result := b.launch(order).wait()
			mu.Lock()
			defer mu.Unlock()
			if result.Cause == pb.EndCause_END_CAUSE_EXITED {
				codes[result.ExitCode]++
			}
		})
	}
	wait.Wait()
	if len(codes) != jobs {
		t.Errorf("exit codes %v", codes)
	}
}

// stepClient connects to process 1 from the host.
func (s *started) stepClient() *step.Client {
	conn, err := socket.DialJob(context.Background(), s.inside(bundle.RunDir, pid1.StepSocket), testUID)
	must(s.b.t, err)
	client := step.NewClient(conn)
	s.b.t.Cleanup(func() { client.Close() })
	return client
}

func TestStep(t *testing.T) {
	b := newBed(t)
	order := b.order("while [ ! -e $HOME/end ]; do sleep 0.02; done")
	order.Allocation[0].Devices = []*pb.AllocatedDevice{{Node: testNode, Index: 2}, {Node: testNode, Index: 5}}
	s := b.launch(order)
	s.ready()
	granted, err := s.stepClient().Allocate(&grant.Request{Tasks: 2, Overcommit: true}, func() {})
	if err != nil || granted.Step != 0 {
		t.Fatalf("Allocate: %+v, %v", granted, err)
	}
	client := s.stepClient()
	must(t, client.Launch(&step.Launch{
		Step: granted.Step, Argv: step.Strings{"sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS $(id -u) $(pwd); exit $SLURM_PROCID"},
		Env: step.Strings{"PATH=/usr/bin:/bin", "CUDA_VISIBLE_DEVICES=7"}, Cwd: step.Bytes(b.home), Input: step.InputNone,
		Tasks: []step.Task{{Rank: 0, Local: 0}, {Rank: 1, Local: 1}},
	}))
	out, codes := map[uint32]string{}, map[uint32]int{}
	for done := false; !done; {
		m, err := client.Next()
		must(t, err)
		switch m := m.(type) {
		case *step.Output:
			out[m.Rank] += string(m.Data)
		case *step.Exited:
			codes[m.Rank] = m.Code
		case *step.Done:
			done = true
		}
	}
	for rank := range uint32(2) {
		if want := fmt.Sprintf("%d n1 0,1 2,5 4242 %s\n", rank, b.home); out[rank] != want || codes[rank] != int(rank) {
			t.Errorf("task %d: %q, code %d, want %q", rank, out[rank], codes[rank], want)
		}
	}
	must(t, os.WriteFile(filepath.Join(b.home, "end"), nil, 0o644))
	wantExit(t, s.wait(), 0)
}

// A job that puts a link in the place of its step socket does not lead the
// supervisor, which is root, to somebody else's.
func TestStepSocketReplaced(t *testing.T) {
	b := newBed(t)
	target := filepath.Join(b.dir, "trusting.sock")
	listener, err := socket.Listen(target, 0, 0)
	must(t, err)
	defer listener.Close()
	s := b.launch(b.order("rm /run/gleaner/step.sock; ln -s " + target + " /run/gleaner/step.sock; echo up; exec sleep 1000"))
	s.ready()
	eventually(t, "the link is there", func() bool { return b.output() == "up\n" })
	if _, err := s.client().Signal(context.Background(), &pb.SignalAlloc{Signal: 15, Batch: true}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("Signal: %v", err)
	}
	_, err = s.client().End(context.Background(), &pb.EndAlloc{})
	must(t, err)
	s.wait()
}

func TestUsageWhileRunning(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("exec sleep 1000"))
	s.ready()
	usage, err := s.client().ShowUsage(context.Background(), &pb.ShimUsageRequest{})
	if err != nil || usage.PeakMemoryBytes == 0 {
		t.Errorf("usage %v, %v", usage, err)
	}
	_, err = s.client().End(context.Background(), &pb.EndAlloc{})
	must(t, err)
	s.wait()
}

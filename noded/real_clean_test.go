package noded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// seedVariable repeats a run of TestRealKilledInCleanUp.
const seedVariable = "GLEANER_SEED"

// litterScript leaves what takes a moment to delete, and says that it ran.
const litterScript = `cd /tmp; seq 500 | xargs mkdir; seq -f %%g/f 500 | xargs touch
ln -s / root; mkfifo pipe; mkdir closed; : > closed/file; chmod 0 closed
(trap '' TERM; setsid sleep 600 &)
echo ran >> %s; exit 7`

// TestRealKilledInCleanUp kills the supervisor, the daemon, or both, at random
// moments from the launch of an allocation to its forgetting. Whatever they had come
// to, one result is told, however often; a script that had ended keeps its
// exit code; and nothing stays.
func TestRealKilledInCleanUp(t *testing.T) {
	n := newRealNode(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		n.must(err)
	}
	t.Logf("%s=%d", seedVariable, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	precious := filepath.Join(n.directory, "work", "precious")
	n.must(os.WriteFile(precious, []byte("data"), 0o666))

	s := n.startDaemon()
	const rounds = 16
	told := map[uint32]*pb.AllocEnded{}
	for job := uint32(1); job <= rounds; job++ {
		ran := filepath.Join(n.directory, "work", fmt.Sprint("ran-", job))
		s.start(n.order(job, fmt.Sprintf(litterScript, ran)))
		alloc := filepath.Join(n.config.StateDir, "jobs", registry.Key{Job: job, Epoch: 1}.String())
		var scriptEnded bool
		switch job % 4 {
		case 0: // at any moment
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		case 1: // once the script has ended
			scriptEnded = true
			eventually(t, "the script has ended", func() bool { return exists(alloc+"/run/exit.json") || exists(alloc+"/result.pb") })
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
		case 2: // once the result is known, while files are deleted
			scriptEnded = true
			eventually(t, "there is a result", func() bool { return exists(alloc + "/result.pb") })
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		default: // while the allocation is forgotten
			scriptEnded = true
			told[job] = s.endedOf(told, job)
			s.acknowledge(&pb.AllocId{Job: job, Epoch: 1})
			time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		}
		if victim := random.IntN(3); victim != 0 {
			killSupervisors(t, alloc)
			if victim == 2 {
				n.killDaemon()
			}
		} else {
			n.killDaemon()
		}
		if n.daemon == nil {
			s = n.startDaemon()
		}
		if told[job] == nil {
			s.start(n.order(job, fmt.Sprintf(litterScript, ran))) // as a controller does that has not heard of an end
		}
		if told[job] == nil {
			told[job] = s.endedOf(told, job)
		}
		checkEnd(t, told[job], ran, scriptEnded)
		s.acknowledge(&pb.AllocId{Job: job, Epoch: 1})
	}
	eventually(t, "all allocations are forgotten", func() bool {
		for job := uint32(1); job <= rounds; job++ {
			s.acknowledge(&pb.AllocId{Job: job, Epoch: 1})
		}
		time.Sleep(50 * time.Millisecond)
		return len(n.allocs()) == 0
	})
	// The next daemon has nothing to tell.
	n.killDaemon()
	if s = n.startDaemon(); len(s.register.Running) > 0 || len(s.register.LeftOvers) > 0 {
		t.Errorf("the next daemon registers with %v", s.register)
	}
	if groups, err := cgroup.List(n.config.CgroupParent); err != nil || len(groups) > 0 {
		t.Errorf("control groups are left: %v, %v", groups, err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), n.directory) {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
	if data, err := os.ReadFile(precious); err != nil || string(data) != "data" {
		t.Errorf("the host's file: %q, %v", data, err)
	}
}

// endedOf waits for the end of a job's allocation. What is told of others once more
// must be what was told of them before.
func (s *fakeSession) endedOf(told map[uint32]*pb.AllocEnded, job uint32) *pb.AllocEnded {
	s.t.Helper()
	for {
		got := s.ended()
		if before := told[got.Alloc.Job]; before != nil && !proto.Equal(before, got) {
			s.t.Errorf("told once %v\nand then %v", before, got)
		}
		if got.Alloc.Job == job {
			return got
		}
	}
}

// checkEnd says whether an end is what has happened.
func checkEnd(t *testing.T, got *pb.AllocEnded, ran string, scriptEnded bool) {
	t.Helper()
	text, _ := os.ReadFile(ran)
	times := strings.Count(string(text), "ran")
	exited := got.Cause == pb.EndCause_END_CAUSE_EXITED && got.ExitCode == 7
	died := got.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED && !scriptEnded
	// One that is killed before it has taken up the allocation has not begun to run it.
	died = died || got.Cause == pb.EndCause_END_CAUSE_NODE_FAULT && times == 0
	if times > 1 || exited && times != 1 || !exited && !died {
		t.Errorf("it ran %d times, had ended when its supervisor was killed: %v, and is told as %v", times, scriptEnded, got)
	}
}

// killSupervisors kills the allocation's supervisor, if there is one.
func killSupervisors(t *testing.T, directory string) {
	t.Helper()
	want := mustExecutable(t) + "\x00shim\x00" + directory + "\x00"
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && string(line) == want {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Error(err)
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

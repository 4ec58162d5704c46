package shim

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// hostile is a program for use inside containers; see testdata/hostile.
func (b *bed) hostile() string {
	b.t.Helper()
	program := filepath.Join(b.home, "hostile")
	build := exec.Command("go", "build", "-o", program, "./testdata/hostile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.t.Fatalf("build hostile: %v\n%s", err, out)
	}
	return program
}

// Whatever a job does to the directory that it shares with its supervisor,
// it ends, and with its own exit code.
func TestSharedDirectorySpoiled(t *testing.T) {
	noRace(t)
	b := newBed(t)
	secret := filepath.Join(b.dir, "secret")
	must(t, os.WriteFile(secret, []byte(`{"code":3}`), 0o600))
	for name, script := range map[string]string{
		"a directory for the report":  "mkdir -p exit.json/x",
		"a link for the report":       "ln -s " + secret + " exit.json",
		"a pipe for the draft":        "mkfifo exit.json.new",
		"a link for the draft":        "ln -s " + secret + " exit.json.new",
		"a directory for the draft":   "mkdir -p exit.json.new/x",
		"a huge report, closed":       "truncate -s 1T exit.json; chmod 500 .",
		"a pipe, closed":              "mkfifo exit.json; chmod 500 .",
		"a link, closed":              "ln -s " + secret + " exit.json; chmod 500 .",
		"a socket link":               "rm job.sock step.sock; ln -s " + b.state + "/jobs/1.1/shim.sock step.sock; mkfifo job.sock",
		"no rights at all":            "chmod 0 .",
		"everything gone":             "rm -rf * 2>/dev/null",
		"stdio moved away":            "mv stdio elsewhere; mkdir stdio; mkfifo stdio/stdout",
		"very deep":                   "i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done",
		"many, with strange names":    `i=0; while [ $i -lt 300 ]; do : > "$i$(printf '\n\377')"; i=$((i+1)); done`,
		"the script":                  "echo 'exit 1' > slurm_script",
		"a start that is a directory": "rm -rf start.json; mkdir start.json",
	} {
		result, _ := b.run("cd /run/gleaner; " + script + "; exit 7")
		if result.Cause != pb.EndCause_END_CAUSE_EXITED || result.ExitCode != 7 || result.StartMs == 0 && name != "a start that is a directory" {
			t.Errorf("%s: %v", name, result)
		}
	}
}

// What cannot be an input or an output is refused, and not waited for.
func TestHostileFiles(t *testing.T) {
	noRace(t)
	b := newBed(t)
	must(t, unix.Mkfifo(filepath.Join(b.home, "pipe"), 0o666))
	must(t, os.Chmod(filepath.Join(b.home, "pipe"), 0o666))
	device(t, filepath.Join(b.home, "device"), 7, 1)
	socket, err := net.Listen("unix", filepath.Join(b.home, "socket"))
	must(t, err)
	defer socket.Close()
	must(t, os.Chmod(filepath.Join(b.home, "socket"), 0o666))
	others := filepath.Join(b.dir, "others")
	must(t, os.WriteFile(others, nil, 0o644))
	must(t, os.Chown(others, 4299, 4299))
	for path, want := range map[string]string{
		"pipe": "Nothing is at the other end", "device": "It is neither a file nor a pipe, but a device", "socket": "neither a file nor a pipe",
		"/proc/self/mem": "the kernel's", "/proc/self/fd/1": "oo many levels of symbolic links", "/dev/stdout": "oo many levels",
		"/proc/thread-self/oom_score_adj": "the kernel's", "/proc/loadavg": "the kernel's", "/sys/kernel/uevent_seqnum": "the kernel's",
		others: "Permission denied", "/dev/vda": "", "": "Is a directory",
	} {
		order := b.order("echo never")
		order.Spec.StandardOutput = path
		if path == "" {
			order.Spec.StandardOutput = "."
		}
		result := b.launch(order).wait()
		if result.Cause != pb.EndCause_END_CAUSE_BAD_REQUEST || !strings.Contains(result.Detail, want) && !strings.Contains(result.Detail, "Permission denied") {
			t.Errorf("%s: %v %q, want %q", path, result.Cause, result.Detail, want)
		}
	}
	// A pipe as input waits for its other end, as in a shell, and ends when told to.
	order := b.order("cat")
	order.Spec.StandardInput = "pipe"
	s := b.launch(order)
	s.ready()
	_, err = s.client().End(context.Background(), &pb.EndAlloc{GraceS: 1})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 9)
}

// The kernel refuses everything that would lead out of the container.
func TestForbiddenCalls(t *testing.T) {
	noRace(t)
	b := newBed(t)
	program := b.hostile()
	setuid := filepath.Join(b.home, "setuid-id")
	copied, err := os.ReadFile("/usr/bin/id")
	must(t, err)
	must(t, os.WriteFile(setuid, copied, 0o755))
	must(t, unix.Chmod(setuid, 0o4755))
	_, out := b.run(program + ` syscalls
		` + setuid + ` -u; ls -A /sys/fs/cgroup | wc -l; su -c true </dev/null >/dev/null 2>&1 && echo su
		find /proc/sys /sys -type f -writable 2>/dev/null | head -3
		for f in /proc/sysrq-trigger /proc/1/oom_score_adj /proc/kcore /proc/kallsyms; do (: < $f && exec 3>$f) 2>/dev/null && echo $f; done
		grep -c cgroup /proc/self/mountinfo; ls /proc/1/root 2>/dev/null | grep -c never`)
	if out != "4242\n0\n/proc/1/oom_score_adj\n0\n0\n" {
		t.Errorf("output:\n%s", out)
	}
}

// A job that attacks its own process 1 can still be ended, at once or by its
// limits.
func TestProcess1Attacked(t *testing.T) {
	noRace(t)
	b := newBed(t)
	program := b.hostile()
	for name, script := range map[string]string{
		"signals":  "kill -KILL 1; kill -STOP 1; kill -TERM 1; echo up; kill -STOP -1; sleep 1000",
		"ptrace":   program + " trace",
		"flood":    program + " flood /run/gleaner/step.sock",
		"starving": program + " flood /run/gleaner/job.sock",
	} {
		b.removeOutput()
		s := b.launch(b.order("trap '' TERM USR1; " + script))
		s.ready()
		eventually(t, name+" begins", func() bool { return b.output() != "" && !strings.Contains(b.output(), "no such file") })
		// Signals may go unheard, but are answered.
		ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
		_, _ = s.client().Signal(ctx, &pb.SignalAlloc{Signal: 10, Batch: true})
		if ctx.Err() != nil {
			t.Errorf("%s: a signal was not answered", name)
		}
		cancel()
		if _, err := s.client().ShowUsage(context.Background(), &pb.ShimUsageRequest{}); err != nil {
			t.Errorf("%s: usage: %v", name, err)
		}
		_, err := s.client().End(context.Background(), &pb.EndAlloc{GraceS: 1})
		must(t, err)
		if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
			t.Errorf("%s: %v", name, result)
		}
	}
	result, out := b.run(program + " garbage /run/gleaner/step.sock; exit 4")
	wantExit(t, result, 4)
	if out != "" {
		t.Errorf("output %q", out)
	}
}

// tasks is how many processes and threads the kernel counts in the allocation's
// group at this instant; a walk through /proc would count some twice.
func (s *started) tasks() int {
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		text, err := os.ReadFile(filepath.Join(root, s.b.settings.CgroupParent, s.dir.ID(), "pids.current"))
		if err == nil {
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			must(s.b.t, err)
			return n
		}
	}
	return 0
}

// refused says whether the kernel has refused the allocation a process or a thread
// because of its limit. It remembers that, however late somebody asks.
func (s *started) refused() bool {
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		group := filepath.Join(root, s.b.settings.CgroupParent, s.dir.ID())
		for _, below := range []string{"", "*", "*/*"} {
			paths, _ := filepath.Glob(filepath.Join(group, below, "pids.events"))
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if times, found := strings.CutPrefix(string(text), "max "); err == nil && found && !strings.HasPrefix(times, "0") {
					return true
				}
			}
		}
	}
	return false
}

func (b *bed) removeOutput() { _ = os.Remove(filepath.Join(b.home, "out")) }

// A job that forks without end reaches its own limit, not the machine's.
func TestForkBomb(t *testing.T) {
	const limit = 150
	b := newBed(t)
	b.settings.MaxProcesses = limit
	s := b.launch(b.order("bomb() { bomb | bomb & }; bomb 2>/dev/null & exec sleep 600"))
	s.ready()
	most := 0
	eventually(t, "the limit is reached", func() bool {
		most = max(most, s.tasks())
		return s.refused()
	})
	most = max(most, s.tasks())
	_, err := s.client().End(context.Background(), &pb.EndAlloc{})
	must(t, err)
	if result := s.wait(); most < 3 || most > limit || result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("%d processes and threads were seen, the limit is %d; %v", most, limit, result)
	}
}

// Files in memory count as memory, and are gone with the job.
func TestMemoryFiles(t *testing.T) {
	noRace(t)
	b := newBed(t)
	order := b.order("head -c 300M /dev/zero > /dev/shm/x; exit 6")
	order.Allocation[0].MemoryBytes = 64 << 20
	result := b.launch(order).wait()
	if result.Cause != pb.EndCause_END_CAUSE_OUT_OF_MEMORY {
		t.Errorf("ended %v", result)
	}
}

// However little memory a job asks for, the node is not at fault.
func TestLittleMemory(t *testing.T) {
	noRace(t)
	b := newBed(t)
	failed := false
	for _, mebibytes := range []uint64{1, 2, 3, 4, 6, 64} {
		order := b.order("exit 6")
		order.Allocation[0].MemoryBytes = mebibytes << 20
		switch result := b.launch(order).wait(); result.Cause {
		case pb.EndCause_END_CAUSE_BAD_REQUEST:
			failed = true
			if !strings.Contains(result.Detail, fmt.Sprintf("the job did not start with %dM of memory on node n1: ask for more with --mem", mebibytes)) {
				t.Errorf("%d MiB: %s", mebibytes, result.Detail)
			}
		case pb.EndCause_END_CAUSE_EXITED, pb.EndCause_END_CAUSE_OUT_OF_MEMORY:
		default:
			t.Errorf("%d MiB: %v", mebibytes, result)
		}
	}
	if !failed {
		t.Error("a job of 1 MiB started")
	}
}

// A full disk is the job's failure, or the node's, but nobody's end.
func TestFullDisk(t *testing.T) {
	if !privately(t) {
		return
	}
	b := newBed(t)
	top := outside(t)
	mountTmpfs(t, top+"/small", 0o777, "size=1m")
	order := b.order("head -c 4000000 /dev/zero; exit $?")
	order.Spec.StandardOutput, order.Spec.StandardError = top+"/small/out", b.home+"/err"
	wantExit(t, b.launch(order).wait(), 1)
	if said, _ := os.ReadFile(b.home + "/err"); !strings.Contains(string(said), "No space left on device") {
		t.Errorf("it said %q", said)
	}

	mountTmpfs(t, top+"/state", 0o711, "size=16m")
	b.state = top + "/state"
	b.settings.StateDir, b.settings.TmpPerCPU = b.state, 8<<20
	must(t, client.PrepareStateDir(b.state))
	result, _ := b.run("head -c 40000000 /dev/zero > /tmp/x || head -c 40000000 /dev/zero > /run/gleaner/x || exit 5")
	wantExit(t, result, 5)
	if result.StartMs == 0 {
		t.Errorf("it never started: %v", result)
	}
	filler := b.state + "/filler"
	_ = os.WriteFile(filler, make([]byte, 20<<20), 0o600)
	self, err := os.Executable()
	must(t, err)
	failing := b.order("true")
	if _, err := client.Launch(context.Background(), self, b.settings, failing); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("Launch on a full disk: %v", err)
	}
	must(t, os.Remove(filler))
	order = b.order("exit 8")
	wantExit(t, b.launch(order).wait(), 8)
}

// Odd people and odd environments.
func TestOddUsers(t *testing.T) {
	b := newBed(t)
	order := b.order("id -u; id -G | wc -w; touch $HOME/x; stat -c %u:%g $HOME/x; id -un")
	order.Owner.Uid, order.Owner.Gid, order.Owner.User, order.Owner.Group = 1_234_567, 2_345_678, "", ""
	order.Owner.Groups = []uint32{2_345_678}
	for i := range uint32(199) {
		order.Owner.Groups = append(order.Owner.Groups, 5000+i*250)
	}
	must(t, os.Chown(b.home, 1_234_567, 2_345_678))
	if _, out := b.runOrder(order); out != "1234567\n200\n1234567:2345678\nuser1234567\n" {
		t.Errorf("output %q", out)
	}
}

func TestOddEnvironment(t *testing.T) {
	noRace(t)
	b := newBed(t)
	order := b.order(`echo "$LD_PRELOAD $GODEBUG" "$BIG9" | wc -c; tr '\0' '\n' < /proc/1/environ | grep -c -e PRELOAD -e GODEBUG; unset LD_PRELOAD; exit 5`)
	order.Spec.Environment = append(order.Spec.Environment, "LD_PRELOAD=/nonexistent/evil.so", "LD_LIBRARY_PATH=/nonexistent",
		"GODEBUG=madvdontneed=1", "GOMAXPROCS=x", "GOTRACEBACK=crash", "_LIBCONTAINER_INITPIPE=3", "BASH_ENV=/dev/full", "ENV=/nonexistent")
	for i := range 10 {
		order.Spec.Environment = append(order.Spec.Environment, fmt.Sprintf("BIG%d=%s", i, strings.Repeat("x", 100_000)))
	}
	order.Spec.StandardError = "/dev/null"
	result, out := b.runOrder(order)
	wantExit(t, result, 5)
	if out != fmt.Sprintf("%d\n0\n", len("/nonexistent/evil.so madvdontneed=1 ")+100_001) {
		t.Errorf("output %q", out)
	}
	// More than the kernel takes as one variable is said.
	order = b.order("true")
	order.Spec.Environment = append(order.Spec.Environment, "HUGE="+strings.Repeat("x", 200_000))
	result, _ = b.runOrder(order)
	if result.Cause != pb.EndCause_END_CAUSE_EXITED || result.ExitCode == 0 || !strings.Contains(strings.ToLower(result.Detail), "argument list too long") {
		t.Errorf("ended %v", result)
	}
}

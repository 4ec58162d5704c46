package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestTrue(t *testing.T) {
	b := newBed(t)
	result, out := b.run("exit 0")
	wantExit(t, result, 0)
	if out != "" || result.StartMs == 0 || result.EndMs < result.StartMs {
		t.Errorf("output %q, times %d to %d", out, result.StartMs, result.EndMs)
	}
}

func TestExitCodes(t *testing.T) {
	b := newBed(t)
	result, _ := b.run("exit 7")
	wantExit(t, result, 7)
	result, _ = b.run("no-such-command")
	wantExit(t, result, 127)
	result, _ = b.run("kill -SEGV $$")
	wantEnd(t, result, pb.EndCause_END_CAUSE_EXITED, 0, 11)
	order := b.order("")
	order.Spec.Script = []byte("#!/no/such/interpreter\n")
	result, out := b.runOrder(order)
	wantExit(t, result, 127)
	if !strings.Contains(out, "execve(): /run/gleaner/slurm_script: its interpreter /no/such/interpreter: No such file or directory") || result.StartMs != 0 {
		t.Errorf("output %q, detail %q, started %d", out, result.Detail, result.StartMs)
	}
}

// The job is its user with all groups, and nobody with any power.
func TestIdentity(t *testing.T) {
	b := newBed(t)
	_, out := b.run(`id; id -un; hostname; pwd; echo $0; grep -E '^(NoNewPrivs|Seccomp|Cap(Prm|Eff|Bnd|Inh|Amb)):' /proc/self/status
		touch $HOME/mine; ps ax | wc -l; ulimit -n`)
	want := []string{
		"uid=4242(gleanertest) gid=4242(gleanertest) groups=4242(gleanertest),4243,4244", "gleanertest", testNode, b.home,
		"/run/gleaner/slurm_script",
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
		"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	}
	got := lines(out)
	if len(got) < len(want) || strings.Join(got[:len(want)], "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
	var stat unix.Stat_t
	must(t, unix.Stat(filepath.Join(b.home, "mine"), &stat))
	if stat.Uid != testUID || stat.Gid != testGID {
		t.Errorf("its file belongs to %d:%d", stat.Uid, stat.Gid)
	}
	must(t, unix.Stat(filepath.Join(b.home, "out"), &stat))
	if stat.Uid != testUID || stat.Mode&0o777 != 0o644 {
		t.Errorf("its output belongs to %d, mode %#o", stat.Uid, stat.Mode)
	}
}

// Files look as they do on the host, and what the host protects stays so.
func TestRoot(t *testing.T) {
	b := newBed(t)
	shared := filepath.Join(b.dir, "shared")
	must(t, os.Mkdir(shared, 0o770))
	must(t, os.Chown(shared, 0, 4244))
	must(t, unix.Chmod(shared, 0o2770))
	b.settings.Binds = []string{shared}
	own := "/tmp/own-" + filepath.Base(b.dir)
	_, out := b.run(`stat -c '%U %u %a' / /etc/passwd /usr/bin/env /etc/shadow
		cat /etc/shadow 2>&1; (echo x >> /etc/passwd) 2>&1; touch /usr/x 2>&1; touch ` + shared + `/group; stat -c %u:%g ` + shared + `/group
		ls -A /tmp | grep -v gleaner-shim-; echo private > ` + own + `; df --output=fstype ` + own + ` | tail -1 | wc -l
		mount -t tmpfs none /tmp 2>&1 | head -1; unshare -U true 2>&1`)
	for _, want := range []string{
		"root 0 755\nroot 0 644\nroot 0 755\n", "cat: /etc/shadow: Permission denied\n", "cannot create /etc/passwd: Permission denied",
		"touch: cannot touch '/usr/x': Permission denied\n", "4242:4244\n", "unshare: unshare failed: Operation not permitted",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in\n%s", want, out)
		}
	}
	if _, err := os.Lstat(own); err == nil {
		t.Error("its private /tmp is the host's")
	}
}

func TestHostIsHidden(t *testing.T) {
	b := newBed(t)
	secret := filepath.Join(b.dir, "secret")
	must(t, os.Mkdir(secret, 0o755))
	must(t, os.WriteFile(filepath.Join(secret, "x"), nil, 0o644))
	hidden := "/opt"
	b.settings.HideDirs = []string{hidden}
	_, out := b.run(`/bin/kill -0 ` + fmt.Sprint(os.Getpid()) + ` 2>&1; ls -A ` + hidden + ` | wc -l; ls ` + b.state + ` 2>&1 | wc -l
		ls /run | tr '\n' ' '; ls -A /dev | tr '\n' ' '; cat /proc/sys/kernel/hostname; (echo x > /proc/sys/kernel/hostname) 2>&1`)
	got := lines(out)
	if !strings.Contains(got[0], "No such process") || got[1] != "0" || !strings.HasPrefix(got[3], "gleaner ") {
		t.Errorf("the host shows:\n%s", out)
	}
	if !strings.Contains(out, "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero ") {
		t.Errorf("devices:\n%s", out)
	}
	if !strings.Contains(out, "cannot create /proc/sys/kernel/hostname") {
		t.Errorf("kernel settings can be written:\n%s", out)
	}
}

// TestTimeLimitIsChanged: a longer one keeps the job from the end that was near,
// and a shorter one, counted from the start too, ends it at once.
func TestTimeLimitIsChanged(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := newBed(t)
	order := b.order("while :; do sleep 0.05; done")
	order.TimeLimitS = 5
	s := b.launch(order)
	s.ready()
	for range 2 { // it may arrive twice
		_, err := s.client().SetLimit(context.Background(), &pb.SetTimeLimit{Alloc: order.Alloc, TimeLimitS: 3600})
		must(t, err)
	}
	time.Sleep(5500 * time.Millisecond)
	if !s.Alive() {
		t.Fatal("the former limit ended it")
	}
	_, err := s.client().SetLimit(context.Background(), &pb.SetTimeLimit{Alloc: order.Alloc, TimeLimitS: 1})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_TIME_LIMIT, 0, 15)
	if _, err := (&service{}).SetLimit(context.Background(), &pb.SetTimeLimit{}); err == nil {
		t.Error("a limit of nothing is taken")
	}
}

func TestTimeLimit(t *testing.T) {
	t.Parallel() // it waits more than it works
	b := newBed(t)
	order := b.order("trap 'echo asked; exit 3' TERM; while :; do sleep 0.05; done")
	order.TimeLimitS, order.KillWaitS = 1, 600
	result, out := b.runOrder(order)
	wantEnd(t, result, pb.EndCause_END_CAUSE_TIME_LIMIT, 3, 0)
	if !strings.Contains(out, "asked") {
		t.Errorf("output %q", out)
	}
	order = b.order("trap '' TERM; while :; do sleep 0.05; done")
	order.TimeLimitS, order.KillWaitS = 1, 1
	result, _ = b.runOrder(order)
	wantEnd(t, result, pb.EndCause_END_CAUSE_TIME_LIMIT, 0, 9)
	if took := result.EndMs - result.StartMs; took < 1900 {
		t.Errorf("ended after %d ms", took)
	}
}

func TestEnd(t *testing.T) {
	ctx := context.Background()
	b := newBed(t)
	s := b.launch(b.order("echo up; exec sleep 1000"))
	s.ready()
	eventually(t, "the script runs", func() bool { return b.output() == "up\n" })
	_, err := s.client().End(ctx, &pb.EndAlloc{GraceS: 3600})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 15)
	// At once, and then by itself before it was asked.
	s = b.launch(b.order("trap '' TERM; sleep 1000"))
	s.ready()
	_, err = s.client().End(ctx, &pb.EndAlloc{})
	must(t, err)
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
	// Stopped processes get their TERM too.
	s = b.launch(b.order("echo up; kill -STOP $$; echo on"))
	s.ready()
	_, err = s.client().End(ctx, &pb.EndAlloc{GraceS: 3600})
	must(t, err)
	if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
		t.Errorf("ended %v", result)
	}
}

// An allocation that is preempted gets TERM as a warning, and again when its time is
// up, or when somebody has no more patience.
func TestEndWarned(t *testing.T) {
	t.Parallel() // it waits more than it works
	ctx := context.Background()
	b := newBed(t)
	script := "n=0; trap 'n=$((n+1)); echo term $n; test $n -lt 2 || exit 7' TERM; echo up; while :; do sleep 0.05; done"
	s := b.launch(b.order(script))
	s.ready()
	eventually(t, "the script runs", func() bool { return b.output() == "up\n" })
	before := time.Now()
	_, err := s.client().End(ctx, &pb.EndAlloc{GraceS: 3600, TermAgainS: 1})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 7, 0)
	if took := time.Since(before); took < time.Second || !strings.Contains(b.output(), "term 1\n") || !strings.Contains(b.output(), "term 2\n") {
		t.Errorf("took %v: %q", took, b.output())
	}
	s = b.launch(b.order(script))
	s.ready()
	eventually(t, "the script runs", func() bool { return b.output() == "up\n" })
	_, err = s.client().End(ctx, &pb.EndAlloc{GraceS: 1000, TermAgainS: 900})
	must(t, err)
	eventually(t, "the warning", func() bool { return strings.Contains(b.output(), "term 1") })
	_, err = s.client().End(ctx, &pb.EndAlloc{GraceS: 600})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 7, 0)
}

// An allocation that is ended while it is being made never runs.
func TestEndWhilePreparing(t *testing.T) {
	b := newBed(t)
	for delay := range 8 {
		order := b.order("echo ran > " + filepath.Join(b.home, "ran"))
		order.Gang = true
		s := b.launch(order)
		time.Sleep(time.Duration(delay) * 10 * time.Millisecond)
		_, err := s.client().End(context.Background(), &pb.EndAlloc{})
		must(t, err)
		result := s.wait()
		wantEnd(t, result, pb.EndCause_END_CAUSE_CANCELLED, 0, result.ExitSignal)
		if _, err := os.Lstat(filepath.Join(b.home, "ran")); err == nil || result.StartMs != 0 {
			t.Fatalf("it ran: %v", result)
		}
	}
}

func TestGang(t *testing.T) {
	ctx := context.Background()
	b := newBed(t)
	order := b.order("echo ran")
	order.Gang = true
	s := b.launch(order)
	s.ready()
	time.Sleep(50 * time.Millisecond)
	if out := b.output(); out != "" {
		t.Errorf("ran before it was released: %q", out)
	}
	for range 2 {
		_, err := s.client().StartBatch(ctx, &pb.ReleaseBatch{})
		if _, ended := s.Result(); err != nil && ended != nil {
			t.Error(err)
		}
	}
	wantExit(t, s.wait(), 0)
	if out := b.output(); out != "ran\n" {
		t.Errorf("output %q", out)
	}

	other := b.order("echo never")
	other.Allocation = append(other.Allocation, &pb.NodeAllocation{Node: "n2", CpuIds: []uint32{0}})
	other.BatchHost = "n2"
	s = b.launch(other)
	s.ready()
	_, err := s.client().End(ctx, &pb.EndAlloc{GraceS: 20, BatchEnded: true})
	must(t, err)
	wantExit(t, s.wait(), 0)
}

func TestOrphansAreKilled(t *testing.T) {
	b := newBed(t)
	result, _ := b.run("setsid sh -c 'sleep 1000' & (nohup sleep 1000 &) ; exit 4")
	wantExit(t, result, 4)
}

func TestSignal(t *testing.T) {
	ctx := context.Background()
	b := newBed(t)
	s := b.launch(b.order("trap 'echo usr1; exit 5' USR1; echo up; while :; do sleep 0.02; done"))
	s.ready()
	eventually(t, "the script runs", func() bool { return b.output() == "up\n" })
	if _, err := s.client().Signal(ctx, &pb.SignalAlloc{Signal: 10}); err == nil {
		t.Error("a signal to steps that do not exist was delivered")
	}
	_, err := s.client().Signal(ctx, &pb.SignalAlloc{Signal: 10, Batch: true})
	must(t, err)
	wantExit(t, s.wait(), 5)
}

func TestBadRequests(t *testing.T) {
	b := newBed(t)
	protected := filepath.Join(b.dir, "protected")
	must(t, os.WriteFile(protected, []byte("root's"), 0o644))
	must(t, os.Symlink(protected, filepath.Join(b.home, "link")))
	must(t, os.Symlink("/etc/shadow", filepath.Join(b.home, "in")))
	must(t, os.Symlink("/dev/urandom", filepath.Join(b.home, "endless")))
	for name, c := range map[string]struct {
		change func(*pb.StartAlloc)
		want   string
	}{
		"link to root's file":  {func(o *pb.StartAlloc) { o.Spec.StandardOutput = "link" }, "standard output " + b.home + "/link on node n1: Permission denied"},
		"root's file as input": {func(o *pb.StartAlloc) { o.Spec.StandardInput = "in" }, "standard input " + b.home + "/in on node n1: Permission denied"},
		"no such directory":    {func(o *pb.StartAlloc) { o.Spec.StandardError = "/nonexistent/x" }, "standard error /nonexistent/x on node n1: No such file or directory"},
		"a directory":          {func(o *pb.StartAlloc) { o.Spec.StandardOutput = b.home }, "Is a directory"},
		"not writable":         {func(o *pb.StartAlloc) { o.Spec.StandardOutput = "/etc/x" }, "/etc/x on node n1: Permission denied"},
		"no work directory":    {func(o *pb.StartAlloc) { o.Spec.WorkDirectory = "/nonexistent" }, "couldn't chdir to `/nonexistent' on node n1: No such file or directory"},
		"closed directory":     {func(o *pb.StartAlloc) { o.Spec.WorkDirectory = b.state }, "Permission denied"},
		"root": {func(o *pb.StartAlloc) {
			o.Owner = &pb.Identity{User: "root", Group: "root", Home: "/root", Groups: []uint32{0}}
		}, "jobs of root are not allowed"},
		"endless input":       {func(o *pb.StartAlloc) { o.Spec.StandardInput = "/dev/zero" }, "give /dev/null or a file"},
		"a link to such":      {func(o *pb.StartAlloc) { o.Spec.StandardInput = "endless" }, "give /dev/null or a file"},
		"an id of namespaces": {func(o *pb.StartAlloc) { o.Owner.Uid, o.Spec.WorkDirectory = 2_140_000_001, "/" }, "this user cannot have a container"},
		"an id of containers": {func(o *pb.StartAlloc) { o.Owner.Uid, o.Spec.WorkDirectory = 2_100_000_001, "/" }, "this user cannot have a container"},
	} {
		order := b.order("echo never")
		order.Spec.StandardOutput = "/dev/null"
		c.change(order)
		result := b.launch(order).wait()
		if result.Cause != pb.EndCause_END_CAUSE_BAD_REQUEST || !strings.Contains(result.Detail, c.want) || result.StartMs != 0 {
			t.Errorf("%s: %v %q, want %q", name, result.Cause, result.Detail, c.want)
		}
	}
	if data, _ := os.ReadFile(protected); string(data) != "root's" {
		t.Errorf("root's file holds %q", data)
	}
}

func TestStdio(t *testing.T) {
	b := newBed(t)
	must(t, os.WriteFile(filepath.Join(b.home, "in"), []byte("input\n"), 0o644))
	order := b.order("cat; echo err >&2")
	order.Spec.StandardInput, order.Spec.StandardOutput, order.Spec.StandardError = "in", "%x-%j.out", "%x-%j.err"
	order.Spec.Umask = 0o077
	wantExit(t, b.launch(order).wait(), 0)
	for suffix, want := range map[string]string{"out": "input\n", "err": "err\n"} {
		path := filepath.Join(b.home, fmt.Sprintf("test-%d.%s", order.Alloc.Job, suffix))
		data, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || string(data) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
	for _, c := range []struct {
		mode    pb.OpenMode
		restart uint32
		want    string
	}{{0, 0, "x\n"}, {pb.OpenMode_OPEN_MODE_APPEND, 0, "x\nx\n"}, {0, 1, "x\nx\nx\n"}, {pb.OpenMode_OPEN_MODE_TRUNCATE, 1, "x\n"}} {
		order := b.order("echo x")
		order.Spec.OpenMode, order.RestartCount = c.mode, c.restart
		if _, out := b.runOrder(order); out != c.want {
			t.Errorf("mode %v, restart %d: %q, want %q", c.mode, c.restart, out, c.want)
		}
	}
}

// What a job writes is kept where its user would look for it.
func TestWorkDirectory(t *testing.T) {
	b := newBed(t)
	work := filepath.Join(b.dir, "work")
	must(t, os.Mkdir(work, 0o755))
	must(t, os.Chown(work, testUID, testGID))
	order := b.order("pwd; echo kept > file; cat ../home/../work/file; touch /var/tmp/gone")
	order.Spec.WorkDirectory, order.Spec.StandardOutput = work, filepath.Join(b.home, "out")
	_, out := b.runOrder(order)
	if out != work+"\nkept\n" {
		t.Errorf("output %q", out)
	}
	if data, err := os.ReadFile(filepath.Join(work, "file")); err != nil || string(data) != "kept\n" {
		t.Errorf("file holds %q, %v", data, err)
	}
	if _, err := os.Lstat("/var/tmp/gone"); err == nil {
		t.Error("the host's /var/tmp was written")
	}
}

func TestPrivateNetwork(t *testing.T) {
	b := newBed(t)
	order := b.order("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' \n'")
	order.Spec.Network = pb.Network_NETWORK_PRIVATE
	if _, out := b.runOrder(order); !strings.HasPrefix(out, "lo") || strings.Contains(out, "eth") {
		t.Errorf("interfaces: %q", out)
	}
}

// Root's job, where it is allowed, is user 0 and can do nothing that needs a
// capability.
func TestRootJob(t *testing.T) {
	b := newBed(t)
	order := b.order("id -u; grep CapEff /proc/self/status; mount -t tmpfs x /mnt 2>&1 | grep -c -i denied; touch /etc/gleaner-test && echo overlay; chown 4242 /tmp 2>&1 | grep -c permitted")
	order.RootAllowed = true
	order.Owner = &pb.Identity{User: "root", Group: "root", Home: "/root", Groups: []uint32{0}}
	order.Spec.WorkDirectory = b.dir
	wantExit(t, b.launch(order).wait(), 0)
	data, err := os.ReadFile(filepath.Join(b.dir, "out"))
	must(t, err)
	out := string(data)
	if !strings.HasPrefix(out, "0\nCapEff:\t0000000000000000\n") || !strings.HasSuffix(out, "overlay\n1\n") {
		t.Errorf("output %q", out)
	}
	if _, err := os.Lstat("/etc/gleaner-test"); err == nil {
		t.Error("the host's /etc was written")
		os.Remove("/etc/gleaner-test")
	}
}

package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/session"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step/grant"
)

// hasty makes steps end soon that must, but not before what obeys has ended;
// nothing else depends on how fast a node is.
func hasty(t *testing.T) {
	start, kill, give, gather, pair := startTime, session.KillWait, giveUpTime, gatherTime, session.InterruptPair
	startTime, session.KillWait, giveUpTime, gatherTime, session.InterruptPair = prototest.Patience, 3*time.Second, prototest.Patience, prototest.Patience, prototest.Patience
	t.Cleanup(func() {
		startTime, session.KillWait, giveUpTime, gatherTime, session.InterruptPair = start, kill, give, gather, pair
	})
}

func TestRunOnTwoNodes(t *testing.T) {
	job := newTestJob(t, "n1", "n2")
	got := job.run("", "-n4", "--label", "sh", "-c",
		"echo $SLURMD_NODENAME $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $SLURM_NNODES $SLURM_STEP_TASKS_PER_NODE $SLURM_STEP_NODELIST $GLEANER_STEP_ID; echo e >&2")
	want := "0: n1 0 0 0 4 2 2(x2) n[1-2] 0|1: n1 1 1 0 4 2 2(x2) n[1-2] 0|2: n2 2 0 1 4 2 2(x2) n[1-2] 0|3: n2 3 1 1 4 2 2(x2) n[1-2] 0"
	if got.Status != 0 || sorted(got.Stdout) != want || sorted(got.Stderr) != "0: e|1: e|2: e|3: e" {
		t.Errorf("%+v", got)
	}
}

func TestRunFromAnotherNode(t *testing.T) {
	job := newTestJob(t, "n1", "n2")
	got := command(t, job.target, "", job.environ("n2"), "grun", "-N1", "-n1", "-w", "n2", "sh", "-c", "echo $SLURMD_NODENAME $SLURM_STEP_ID $SLURM_NODEID")
	if got != (clienttest.Outcome{Status: 0, Stdout: "n2 0 0\n", Stderr: ""}) {
		t.Errorf("%+v", got)
	}
}

func TestRunExitStatus(t *testing.T) {
	hasty(t)
	job := newTestJob(t, "n1", "n2")
	deaf := filepath.Join(t.TempDir(), "deaf") // is there once task 0 ignores SIGTERM
	for name, test := range map[string]struct {
		arguments []string
		status    int
		stderr    string
	}{
		"the highest": {[]string{"-n2", "sh", "-c", "exit $((SLURM_PROCID+3))"}, 4,
			"grun: error: n1: task 0: Exited with exit code 3|grun: error: n2: task 1: Exited with exit code 4"},
		"alike on one node": {[]string{"-n4", "sh", "-c", "exit 5"}, 5,
			"grun: error: n1: tasks 0-1: Exited with exit code 5|grun: error: n2: tasks 2-3: Exited with exit code 5"},
		"killed":     {[]string{"-N1", "-n1", "sh", "-c", "kill -9 $$"}, 137, "grun: error: n1: task 0: Killed"},
		"crashed":    {[]string{"-N1", "-n1", "sh", "-c", "kill -11 $$"}, 139, "grun: error: n1: task 0: Segmentation fault"},
		"no program": {[]string{"-N1", "-n2", "nonexist"}, 2, "grun: error: n1: execve(): nonexist: No such file or directory"},
		"kill on bad exit": {[]string{"-K", "-n2", "sh", "-c", "test $SLURM_PROCID = 1 && exit 9; exec sleep 600"}, 143,
			"grun: Terminating StepId=7.|grun: error: n1: task 0: Terminated|grun: error: n2: task 1: Exited with exit code 9"},
		"kill what ignores it": {[]string{"-K1", "-n2", "sh", "-c", "if test $SLURM_PROCID = 1; then until test -e " + deaf + "; do sleep 0.01; done; exit 9; fi; trap '' TERM; : > " + deaf + "; while :; do sleep 0.1; done"}, 137,
			"grun: Terminating StepId=7.|grun: error: n1: task 0: Killed|grun: error: n2: task 1: Exited with exit code 9"},
	} {
		got := job.run("", test.arguments...)
		stderr := sorted(got.Stderr)
		if at := strings.Index(stderr, "StepId=7."); at >= 0 { // its number depends on the order of the tests
			end := at + strings.IndexByte(stderr[at:], '|')
			stderr = stderr[:at+len("StepId=7.")] + stderr[end:]
		}
		if got.Status != test.status || stderr != test.stderr {
			t.Errorf("%s: status %d, %q; want %d, %q", name, got.Status, stderr, test.status, test.stderr)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	job := newTestJob(t, "n1")
	for line, want := range map[string]struct {
		text   string
		status int
	}{
		"":                         {"grun: fatal: No command given to execute.", 1},
		"--bogus true":             {"grun: unrecognized option '--bogus'\nTry \"grun --help\" for more information\n", 255},
		"-n x true":                {"grun: error: Invalid numeric value \"x\" for --ntasks", 1},
		"--gpus-per-task=x:y x":    {"grun: error: Invalid --gpus-per-task specification: ", 1},
		"--gpu-bind=per_task:0 x":  {"grun: error: Invalid --gpu-bind specification: \"per_task:0\": type none, per_task:COUNT", 1},
		"--gpu-bind=map_gpu:0,1 x": {"grun: error: Invalid generic resource (gres) specification: --gpu-bind gives a task GPU 0", 1},
		"--gpus-per-node=1 x":      {"grun: error: Unable to create step for job 7: Invalid generic resource (gres) specification\n", 1},
		"--gpu-bind=map_gpu:x x":   {"grun: error: Invalid --gpu-bind specification: ", 1},
		"--mem=x x":                {"grun: error: Invalid --mem specification: ", 255},
		"-m plane=0 x":             {"grun: error: Invalid --distribution specification: ", 255},
		"-m arbitrary x":           {"grun: error: --distribution=arbitrary needs a node for each task", 1},
		"-m arbitrary -w n9 x":     {"grun: error: Unable to create step for job 7: Requested node configuration is not available\n", 1},
		"--mpi=pmi3 true":          {"grun: error: --mpi=pmi3 is not supported: ", 1},
		"-n9 true":                 {"grun: error: Unable to create step for job 7: More processors requested than permitted\n", 1},
		"-o /nowhere/x true":       {"grun: error: Unable to open file /nowhere/x for output: no such file or directory\n", 1},
		"-i /nowhere/x true":       {"grun: error: Unable to open file /nowhere/x for input: no such file or directory\n", 1},
	} {
		got := job.run("", strings.Fields(line)...)
		if got.Status != want.status || !strings.HasPrefix(got.Stderr, want.text) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	outside := command(t, job.target, "", nil, "grun", "true")
	if outside.Status != 1 || !strings.HasPrefix(outside.Stderr, "grun: error: Unable to allocate resources: ") {
		t.Errorf("outside a job: %+v", outside)
	}
}

func TestRunInput(t *testing.T) {
	job := newTestJob(t, "n1", "n2")
	directory := t.TempDir()
	clienttest.WriteFile(t, filepath.Join(directory, "in.0"), "zero\n")
	clienttest.WriteFile(t, filepath.Join(directory, "in.1"), "one\n")
	large := strings.Repeat("0123456789abcde\n", 100_000) // more than the window
	for name, test := range map[string]struct {
		arguments []string
		stdin     string
		want      string
	}{
		"to all":    {[]string{"-n2", "-l", "cat"}, "hello\n", "0: hello|1: hello"},
		"to one":    {[]string{"-n2", "-l", "-i", "1", "cat"}, "hello\n", "1: hello"},
		"none":      {[]string{"-n2", "-l", "-i", "none", "cat"}, "hello\n", ""},
		"one file":  {[]string{"-n2", "-l", "-D", directory, "-i", "in.0", "cat"}, "hello\n", "0: zero|1: zero"},
		"two files": {[]string{"-n2", "-l", "-D", directory, "-i", "in.%t", "cat"}, "hello\n", "0: zero|1: one"},
		"much":      {[]string{"-n2", "-l", "md5sum"}, large, ""},
		"not read":  {[]string{"-n2", "true"}, large, ""},
	} {
		got := job.run(test.stdin, test.arguments...)
		if name == "much" {
			fields := strings.Fields(got.Stdout)
			if len(fields) != 6 || fields[1] != fields[4] || got.Status != 0 {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if got.Status != 0 || sorted(got.Stdout) != test.want {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

func TestRunOutput(t *testing.T) {
	job := newTestJob(t, "n1", "n2")
	directory := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return err.Error()
		}
		return sorted(string(text))
	}
	const both = "echo o$SLURM_PROCID; echo e$SLURM_PROCID >&2"
	got := job.run("", "-n2", "-D", directory, "-o", "out.%t.%N.%j", "sh", "-c", both)
	if got != (clienttest.Outcome{}) || read("out.0.n1.7") != "e0|o0" || read("out.1.n2.7") != "e1|o1" {
		t.Errorf("files by task: %+v %q %q", got, read("out.0.n1.7"), read("out.1.n2.7"))
	}
	got = job.run("", "-n2", "-D", directory, "-l", "-o", "all.out", "-e", "none", "sh", "-c", both)
	if got != (clienttest.Outcome{Status: 0, Stdout: "", Stderr: ""}) || read("all.out") != "0: o0|1: o1" {
		t.Errorf("one file: %+v %q", got, read("all.out"))
	}
	got = job.run("", "-n2", "-D", directory, "-o", "all.out", "--open-mode=append", "-e", "0", "sh", "-c", both)
	if got != (clienttest.Outcome{Status: 0, Stdout: "", Stderr: "e0\n"}) || read("all.out") != "0: o0|1: o1|o0|o1" {
		t.Errorf("appended: %+v %q", got, read("all.out"))
	}
	got = job.run("", "-n2", "-o", "1", "-e", "none", "sh", "-c", both)
	if got != (clienttest.Outcome{Status: 0, Stdout: "o1\n", Stderr: ""}) {
		t.Errorf("one task: %+v", got)
	}
	got = job.run("", "-n2", "-l", "printf", "a\nb")
	if got.Status != 0 || sorted(got.Stdout) != "0: a|0: b|1: a|1: b" {
		t.Errorf("lines without an end: %+v", got)
	}
	got = job.run("", "-N1", "-n1", "printf", "no end")
	if got != (clienttest.Outcome{Status: 0, Stdout: "no end", Stderr: ""}) {
		t.Errorf("one task passes through: %+v", got)
	}
}

func TestRunExport(t *testing.T) {
	job := newTestJob(t, "n1")
	got := command(t, job.target, "", job.environ("n1", "A=1", "B=2"), "grun", "-n1", "--export=B,C=3", "sh", "-c", "echo $A-$B-$C-$SLURM_JOB_ID-${HOME:+home}")
	if got != (clienttest.Outcome{Status: 0, Stdout: "-2-3-7-home\n", Stderr: ""}) {
		t.Errorf("%+v", got)
	}
}

func TestRunLosesANode(t *testing.T) {
	hasty(t)
	job := newTestJob(t, "n1", "n2")
	job.refuse["n2"] = true
	got := job.run("", "-n2", "sleep", "600")
	if got.Status != 143 || !strings.Contains(got.Stderr, "grun: error: n2: lost the connection to task 1") {
		t.Errorf("%+v", got)
	}
}

func TestRunPassesSignals(t *testing.T) {
	hasty(t)
	job := newTestJob(t, "n1", "n2")
	for name, test := range map[string]struct {
		signals []os.Signal
		script  string
		status  int
	}{
		"caught":         {[]os.Signal{syscall.SIGUSR1}, "trap 'exit 3' USR1", 3},
		"terminated":     {[]os.Signal{syscall.SIGTERM}, ":", 143},
		"two interrupts": {[]os.Signal{syscall.SIGINT, syscall.SIGINT}, "trap '' INT", 137},
	} {
		var stdout, stderr bytes.Buffer
		command := Command()
		inv := &option.Invocation{
			Context: context.Background(), Command: command, Values: option.Values{},
			Operands: []string{"sh", "-c", test.script + "; echo ready; while :; do sleep 0.05; done"},
			Stdin:    strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Environ: job.environ("n1"),
		}
		shape, err := readShape(inv.Getenv)
		if err != nil {
			t.Fatal(err)
		}
		signals := make(chan os.Signal)
		ready := make(chan struct{}, 4)
		inv.Stdout = writerFunc(func(data []byte) { ready <- struct{}{} })
		go func() {
			<-ready
			<-ready
			for _, number := range test.signals {
				signals <- number
			}
		}()
		runner := &stepRunner{inv: inv, shape: shape, request: &grant.Request{}, signals: signals, dialer: &stepDialer{shape: shape, controller: job.target}}
		_, status := option.Report("grun", runner.run(context.Background()))
		if status != test.status {
			t.Errorf("%s: status %d, want %d; %s", name, status, test.status, stderr.String())
		}
	}
}

type writerFunc func([]byte)

func (w writerFunc) Write(data []byte) (int, error) {
	w(data)
	return len(data), nil
}

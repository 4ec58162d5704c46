package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
)

func TestNoController(t *testing.T) {
	before := client.QueryTime
	client.QueryTime = 200 * time.Millisecond
	t.Cleanup(func() { client.QueryTime = before })
	target := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for program, want := range map[string]string{
		"gqueue":               "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
		"ginfo":                "slurm_load_partitions: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show job 1":  "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show node":   "slurm_load_node error: Unable to contact slurm controller (connect failure)\n",
		"gcontrol show config": "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)\n",
	} {
		out, stderr, status := typed(t, t.Context(), nil, program+" --controller="+target)
		if status != 1 || out != "" || !strings.HasPrefix(stderr, want) || !strings.Contains(stderr, target) {
			t.Errorf("%s: status %d, %q, %q", program, status, out, stderr)
		}
	}
	out, _, status := typed(t, t.Context(), nil, "gcontrol ping --controller="+target)
	if status != 1 || !strings.HasPrefix(out, "Slurmctld(primary) at "+target+" is DOWN\n***") {
		t.Errorf("ping: status %d, %q", status, out)
	}
}

func TestJSONIsJSON(t *testing.T) {
	clienttest.FixTime(t)
	clienttest.ServeStub(t, clienttest.StubCluster())
	for _, line := range []string{
		"gqueue --json", "gqueue --json=v0.0.39 -t all", "gqueue --json -u nobodyatall", "gqueue -r --json", "ginfo --json", "ginfo --json=v0.0.39", "ginfo --json -N",
		"gcontrol show job --json", "gcontrol show node --json", "gcontrol show partition --json=v0.0.39", "gcontrol show config --json", "gcontrol ping --json",
	} {
		out, stderr, status := typed(t, t.Context(), nil, line)
		var answer map[string]any
		if err := json.Unmarshal([]byte(out), &answer); err != nil || status != 0 || answer["errors"] == nil {
			t.Errorf("%s: %v, status %d, %s", line, err, status, stderr)
		}
	}
}

// A FIFO that nobody writes to is given up on Ctrl-C.
func TestSubmitInterruptedWhileOpening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // lets the reader that was left behind go
		if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = file.Close()
		}
	})
	for _, argv := range [][]string{{"gsubmit", path}, {"gcontrol", "apply", "-f", path}} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if got := commandIn(ctx, t, "unix:///nowhere", "", nil, argv...); got != (clienttest.Outcome{Status: console.Interrupted}) {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

// What no message can carry is refused by name, or in the environment left out.
func TestSubmitNotUTF8(t *testing.T) {
	controller := &clienttest.Scripted{}
	target := controller.Start(t)
	got := command(t, target, "", []string{"A=1", "B=\xff", "C\xfe=2"}, "gsubmit", "--wrap=true")
	if want := "gsubmit: warning: not handed to the job, because they are not UTF-8: B C?\n"; got != (clienttest.Outcome{Status: 0, Stdout: "Submitted batch job 42\n", Stderr: want}) {
		t.Errorf("%+v", got)
	} else if environment := controller.Submits[0].GetSpec().GetEnvironment(); !slices.Equal(environment, []string{"A=1"}) {
		t.Errorf("the job has %q", environment)
	}
	for line, want := range map[string]string{
		"gsubmit --wrap=true -J a\xff":    `gsubmit: error: Batch job submission failed: the name "a\xff" holds bytes that are not UTF-8`,
		"gsubmit --wrap=true -o \xff.out": `the standard output "\xff.out" holds bytes`,
		"gsubmit --wrap=true -p a,\xff":   `the partitions "\xff" holds bytes`,
		"gcancel -n \xff":                 `the names "\xff" holds bytes`,
		"gqueue -n \xff":                  `the names "\xff" holds bytes`,
	} {
		if got := command(t, target, "", nil, strings.Fields(line)...); got.Status != 1 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%q: %+v", line, got)
		}
	}
	if len(controller.Submits) != 1 || len(controller.Cancels) != 0 {
		t.Error("a request was sent")
	}
}

// Nothing of what is quoted in a message reaches the terminal as a command.
func TestMessagesAreHarmless(t *testing.T) {
	for _, argv := range [][]string{
		{"gsubmit", "--\x1b[31m"}, {"gsubmit", "no\x1b[31m"}, {"gsubmit", "-t", "\x1b[31m", "--wrap=x"}, {"gqueue", "-j", "1\x1b[31m"},
		{"gcontrol", "\x1b[31m"}, {"gcontrol", "show", "\x1b[31m"}, {"gcontrol", "update", "x\x1b[31m=1"}, {"ginfo", "\x1b[31m"}, {"gleaner", "\x1b[31m"},
	} {
		if got := command(t, "unix:///nowhere", "", nil, argv...); got.Status == 0 || strings.Contains(got.Stderr, "\x1b") {
			t.Errorf("%q: %+v", argv, got)
		}
	}
}

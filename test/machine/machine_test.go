package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// bootTimeout bounds the life of the machine, and caseTimeout that of a case.
// They are long, because a machine under emulation on a busy host is slow, and
// matter only when something hangs.
const (
	bootTimeout = 20 * time.Minute
	caseTimeout = 12 * time.Minute
)

// watchdogSeconds is half of how long the machine's kernel may be stuck before it panics
// with a trace of where, which ends the machine. A busy host may stop it for a while.
const watchdogSeconds = "60"

// cases are what the machine runs, in this order.
var cases = []Case{
	tests("cgroup", "."),
	// Those that the pattern leaves out take minutes here, want a Python, or save
	// and restore, which the story migrate does too.
	tests("noded/container", "^Test(MapIDs|MapMountIDs|UserNamespace|MountOrder|AddAccount|DeletedTree|AllowedDevices"+
		"|SeccompFilter|RefuseHostNamespace|SelectMounts|CoveredMounts|TryIdmap)$", "GLEANER_TEST_GINIT=/src/bin/ginit"),
	// In a mount namespace of their own, and told where ginit is, these do not
	// build it.
	tests("noded/shim", "^Test(SupervisorKilled|ParkOfSuspended"+prototest.Soak("", "|Memory|OrphansAreKilled|ForkBomb|ParkTakesDevices|FrozenAllocEndsWithoutRunning|KilledInMidSave")+")$",
		"GLEANER_TEST_GINIT=/src/bin/ginit", "unshare", "--mount"),
	// The kernel of the machine that runs all tests may lack WireGuard.
	tests("noded/gangnet/wire", "^Test(ConnectionsOutliveTheLink|GoneWithItsSupervisor|Killed"+prototest.Soak("", "|Moved")+")$/^("+prototest.Soak("kernel", "kernel|both")+")$"),
	tests("noded/doctor", "^Test(SoundMachine|NoControlGroups"+prototest.Soak("", "|OccupiedParent")+")$",
		"GLEANER_TEST_GINIT=/src/bin/ginit", "unshare", "--mount"),
	tests("test/scenario", "^TestScenarios$/^isolation$", "GLEANER_SCENARIO_PATIENCE=8"),
	// Alone: a job that is frozen while it is saved is not waited for without
	// end.
	short(tests("test/scenario", "^TestScenarios$/^migrate$", "GLEANER_SCENARIO_PATIENCE=8")),
}

// short has make test run the part of a story that depends on control groups, and make
// soak all of it.
func short(c Case) Case {
	c.Arguments = append(c.Arguments, prototest.Soak([]string{"-test.short"}, nil)...)
	return c
}

// tests is the case of those tests of a package whose names match pattern, run
// by env with the arguments before it.
func tests(folder, pattern string, env ...string) Case {
	arguments := append([]string{"env"}, env...)
	arguments = append(arguments, filepath.Join(Directory, filepath.Base(folder)+".test"), "-test.v", "-test.run", pattern)
	return Case{Name: folder, Directory: "/src/" + folder, Arguments: arguments, Seconds: int(caseTimeout.Seconds())}
}

// packages are those whose tests the machine runs.
var packages = []string{"cgroup", "noded/container", "noded/shim", "noded/gangnet/wire", "noded/doctor", "test/scenario"}

// TestCgroup2 boots the machine once and makes each of its cases a subtest.
func TestCgroup2(t *testing.T) {
	kernel := findKernel(t)
	began := time.Now()
	disk := makeDisk(t, kernel)
	t.Logf("disk image made in %.1f s", time.Since(began).Seconds())
	began = time.Now()
	m := boot(t, kernel, disk)
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { m.follow(t, c) })
	}
	m.end(t)
	t.Logf("machine on for %.1f s, %.1f s of CPU", time.Since(began).Seconds(), (m.command.ProcessState.UserTime() + m.command.ProcessState.SystemTime()).Seconds())
}

// running is a machine that has been started.
type running struct {
	command *exec.Cmd
	context context.Context
	reports *json.Decoder
	console string // file
	stderr  bytes.Buffer
	broken  bool // no further report can be read
}

// boot starts the machine. Its second serial port is qemu's standard output.
func boot(t *testing.T, kernel kernel, disk string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	m := &running{context: ctx, console: filepath.Join(t.TempDir(), "console")}
	m.command = exec.CommandContext(ctx, qemu,
		// The plainest processor: under emulation every feature costs time, and
		// so do the kernel's precautions against flaws of real ones. All emulated processors
		// read the same counter, which the kernel does not believe by itself: a device that
		// it takes for a clock instead costs a system call and the emulator's lock each time.
		// One processor, because two wait for each other in the emulator: they cost a sixth more,
		// and once one waited for the other without end.
		"-accel", "tcg,thread=multi", "-cpu", "qemu64", "-smp", "1", "-m", "1536",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", kernel.image,
		"-append", "console=ttyS0 panic=-1 loglevel=5 watchdog_thresh="+watchdogSeconds+" softlockup_panic=1 mitigations=off tsc=reliable cgroup_no_v1=all root=/dev/nvme0n1 rootfstype=ext4 rw init="+Init,
		"-drive", "file="+disk+",if=none,id=root,format=raw,cache=unsafe",
		"-device", "nvme,drive=root,serial=root",
		"-serial", "file:"+m.console, "-serial", "stdio")
	m.command.Stderr = &m.stderr
	out, err := m.command.StdoutPipe()
	if err == nil {
		err = m.command.Start()
	}
	if err != nil {
		cancel()
		t.Fatalf("start %s: %v", qemu, err)
	}
	t.Cleanup(func() {
		cancel() // kills it if it still runs
		_ = m.command.Wait()
	})
	m.reports = json.NewDecoder(out)
	return m
}

// follow reads what the machine tells of one case until its end.
func (m *running) follow(t *testing.T, c Case) {
	if m.broken {
		t.Fatal("the machine is gone: see the first case that failed")
	}
	var output strings.Builder
	for {
		var report Report
		if err := m.reports.Decode(&report); err != nil {
			m.broken = true
			t.Fatalf("the machine is gone: %v\n%s%s", m.why(err), output.String(), m.tail())
		}
		if report.Case != c.Name {
			m.broken = true
			t.Fatalf("the machine runs case %q", report.Case)
		}
		output.WriteString(report.Output)
		if !report.Ended {
			continue
		}
		t.Logf("%.1f s in the machine\n%s", report.Seconds, strings.Join(verdicts.FindAllString(output.String(), -1), "\n"))
		if report.Failure != "" {
			t.Errorf("failed: %s\n%s", report.Failure, output.String())
		}
		// The machine has what every test needs: a test that is skipped there
		// is one that nobody runs.
		for _, skipped := range skips.FindAllStringSubmatch(output.String(), -1) {
			if !mayBeSkipped[skipped[1]] {
				t.Errorf("%s was skipped: %s", skipped[1], strings.Join(needs.FindAllString(output.String(), -1), "\n"))
			}
		}
		if !passes.MatchString(output.String()) {
			t.Error("no test passed")
		}
		return
	}
}

var (
	verdicts = regexp.MustCompile(`(?m)^ *--- [A-Z]+: .*`)
	skips    = regexp.MustCompile(`(?m)^ *--- SKIP: (\S+)`)
	needs    = regexp.MustCompile(`(?m)^ *\S+_test\.go:[0-9]+: needs .*`)
	passes   = regexp.MustCompile(`(?m)^ *--- PASS: `)
)

// mayBeSkipped names the tests that cannot run in the machine.
var mayBeSkipped = map[string]bool{}

// end waits until the machine has turned itself off.
func (m *running) end(t *testing.T) {
	t.Helper()
	var report Report
	if err := m.reports.Decode(&report); !errors.Is(err, io.EOF) && !m.broken {
		t.Errorf("after the last case the machine tells: %v %+v", err, report)
	}
	if err := m.command.Wait(); err != nil && !m.broken {
		t.Errorf("the machine did not end well: %v\n%s", m.why(err), m.tail())
	}
}

// why says why the machine ended, as far as err does not.
func (m *running) why(err error) error {
	if m.context.Err() != nil {
		return errors.New("it was stopped, because it was on for " + bootTimeout.String())
	}
	return err
}

// tail is what qemu said and the end of the console.
func (m *running) tail() string {
	text, _ := os.ReadFile(m.console)
	return "--- qemu\n" + m.stderr.String() + "--- the console's end\n" + string(text[max(0, len(text)-6000):])
}

package shim

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// statusOf is a value of /proc/PID/status; "" = the process has ended.
func statusOf(pid int, key string) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// find answers the host's number of the process that has a number inside.
func (s *started) find(inside string) int {
	s.b.t.Helper()
	for _, pid := range s.processes() {
		if strings.HasSuffix(statusOf(pid, "NSpid"), "\t"+inside) {
			return pid
		}
	}
	s.b.t.Fatalf("process %s of the job is not there", inside)
	return 0
}

// isStopped says whether a signal has stopped a process. One that CRIU still holds ("t")
// is neither stopped nor running.
func (s *started) isStopped(inside string) bool {
	s.b.t.Helper()
	return strings.HasPrefix(statusOf(s.find(inside), "State"), "T")
}

func (s *started) isRunning(inside string) bool {
	s.b.t.Helper()
	state := statusOf(s.find(inside), "State")
	return state != "" && !strings.ContainsAny(state[:1], "Tt")
}

// stopInit stops process 1 from outside, as only somebody on the host can.
func (s *started) stopInit() {
	s.b.t.Helper()
	must(s.b.t, unix.Kill(s.find("1"), unix.SIGSTOP))
	eventually(s.b.t, "process 1 is stopped", func() bool { return s.isStopped("1") })
}

// stopping is a job whose script ends when a file appears, and which has stopped a
// process of its own, whose number it writes down.
func (b *bed) stopping() *pb.StartAlloc {
	return b.order(`sleep 1000 & kill -STOP $!; echo $! > stopped
echo up; while [ ! -e go ]; do sleep 0.02; done; exit 42`)
}

// endsAlone checks that process 1 runs and the job's own stopped process does not,
// lets the script end, and waits until process 1 has reported that.
func (s *started) endsAlone() {
	t := s.b.t
	t.Helper()
	eventually(t, "process 1 runs", func() bool { return s.isRunning("1") })
	stopped, err := os.ReadFile(filepath.Join(s.b.home, "stopped"))
	must(t, err)
	eventually(t, "the process that the job itself had stopped is stopped", func() bool { return s.isStopped(strings.TrimSpace(string(stopped))) })
	must(t, os.WriteFile(filepath.Join(s.b.home, "go"), nil, 0o644))
	wantExit(t, s.wait(), 42)
}

// TestStoppedInitElsewhere: a process 1 that somebody stopped before the job moved
// runs after that. Whoever stopped it only knows the process that is gone.
func TestStoppedInitElsewhere(t *testing.T) {
	for name, gang := range map[string]bool{"at once": false, "in two stages": true} {
		t.Run(name, func(t *testing.T) {
			b := newSavingBed(t)
			order := b.stopping()
			order.Gang = gang
			first := b.launch(order)
			first.ready()
			if gang {
				first.release()
			}
			eventually(t, "it is up", func() bool { return b.output() == "up\n" })
			first.stopInit()
			second := first.move(1)
			if gang {
				second.release()
			}
			second.endsAlone()
		})
	}
}

// TestStoppedInitHere: the same holds for a save after which the job resumes here. A
// SIGCONT that comes while CRIU holds process 1 would be lost.
func TestStoppedInitHere(t *testing.T) {
	b := newSavingBed(t)
	s := b.launch(b.stopping())
	s.ready()
	eventually(t, "it is up", func() bool { return b.output() == "up\n" })
	s.stopInit()
	wantSaved(t, s.save(&pb.SaveAlloc{Number: 1, Then: resume}))
	s.endsAlone()
}

package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// bed is a place for parts and a user's home.
type bed struct {
	t      testing.TB
	dir    string
	engine *checkpoint.Engine
	groups []uint32
	uptime time.Duration // how much earlier than this machine the node of the next supervisor was started
}

func newBed(t testing.TB) *bed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: starts containers")
	}
	engine, rejected := checkpoint.Find(t.Context(), checkpoint.Programs(""))
	if engine == nil {
		t.Skipf("needs CRIU: contrib/setup/debian.sh criu: %v", rejected)
	}
	if initProgram == "" {
		buildInit(t)
	}
	dir, err := os.MkdirTemp("", "gleaner-container-")
	must(t, err)
	b := &bed{t: t, dir: dir, engine: engine}
	t.Cleanup(func() {
		if out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput(); err != nil {
			t.Errorf("left behind: %v: %s", err, out)
		}
	})
	must(t, os.Chmod(dir, 0o755))
	for _, name := range []string{"parts", "images"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	must(t, os.Mkdir(b.home(), 0o700))
	must(t, os.Chown(b.home(), testUID, testUID))
	return b
}

func buildInit(t testing.TB) {
	t.Helper()
	if initProgram = os.Getenv(initVariable); initProgram != "" {
		return
	}
	file, err := os.CreateTemp("", "gleaner-ginit-")
	must(t, err)
	file.Close()
	initProgram = file.Name()
	build := exec.Command("go", "build", "-o", initProgram, "../../cmd/ginit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build ginit: %v\n%s", err, out)
	}
}

func (b *bed) home() string             { return filepath.Join(b.dir, "home") }
func (b *bed) image(name string) string { return filepath.Join(b.dir, "images", name) }
func (b *bed) output() string           { return filepath.Join(b.home(), "out") }

// read answers what the script has printed.
func (b *bed) read() string {
	data, _ := os.ReadFile(b.output())
	return string(data)
}

// supervisor is one such process.
type supervisor struct {
	b   *bed
	id  string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	pid int // of the container's process 1
}

var lastID atomic.Uint32

// start starts a supervisor without a container.
func (b *bed) start() *supervisor {
	t := b.t
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, supervisorWord)
	if offset := strconv.Itoa(int(b.uptime.Seconds())); b.uptime != 0 {
		cmd = exec.Command("unshare", "--time", "--boottime", offset, "--monotonic", offset, "--", self, supervisorWord)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	complaints := new(bytes.Buffer)
	cmd.Stderr = complaints
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := &supervisor{b: b, id: fmt.Sprintf("%d.1", lastID.Add(1)), cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s.killRest()
		if t.Failed() && complaints.Len() > 0 {
			t.Logf("supervisor %s: %s", s.id, complaints.String())
		}
	})
	return s
}

func (s *supervisor) group() *cgroup.Group { return cgroup.New(testParent+"/"+s.id, cgroup.Limits{}) }

func (s *supervisor) killRest() {
	ctx, cancel := context.WithTimeout(context.Background(), prototest.Patience)
	defer cancel()
	if err := s.group().Kill(ctx); err != nil {
		s.b.t.Errorf("left behind: %v", err)
	}
	eventually(s.b.t, s.group().Path()+" can be removed", func() bool {
		err := s.group().Remove()
		return err == nil || errors.Is(err, cgroup.ErrNotFound)
	})
}

// do gives an order and answers how it went.
func (s *supervisor) do(o order) report {
	s.b.t.Helper()
	o.ID, o.Parts, o.Home, o.Output = s.id, filepath.Join(s.b.dir, "parts"), s.b.home(), s.b.output()
	o.Init, o.Parent, o.CRIU, o.Groups = initProgram, testParent, s.b.engine.Path, s.b.groups
	data, err := json.Marshal(o)
	must(s.b.t, err)
	_, err = s.in.Write(append(data, '\n'))
	must(s.b.t, err)
	var r report
	must(s.b.t, s.out.Decode(&r))
	if r.Pid != 0 {
		s.pid = r.Pid
	}
	return r
}

// must is do, and fails the test when it fails.
func (s *supervisor) must(o order) report {
	s.b.t.Helper()
	r := s.do(o)
	if r.Error != "" {
		s.b.t.Fatalf("%s: %s\n%s", o.Do, r.Error, s.b.log())
	}
	return r
}

// log is the end of CRIU's logs.
func (b *bed) log() string {
	var text strings.Builder
	for _, name := range []string{"dump.log", "restore.log"} {
		data, _ := os.ReadFile(b.image(name))
		lines := strings.Split(string(data), "\n")
		fmt.Fprintf(&text, "%s:\n%s\n", name, strings.Join(lines[max(0, len(lines)-30):], "\n"))
	}
	return text.String()
}

// save freezes and saves a container, and answers the image's path.
func (s *supervisor) save() (string, report) {
	s.b.t.Helper()
	image := s.b.image(s.id)
	s.must(order{Do: "freeze"})
	r := s.must(order{Do: "save", Image: image})
	s.b.writeManifest(image, r.Manifest)
	return image, r
}

func (b *bed) writeManifest(image string, m *checkpoint.Manifest) {
	b.t.Helper()
	m.Node = "n1"
	data, _, err := m.Encode()
	must(b.t, err)
	must(b.t, os.WriteFile(image+".json", data, 0o600))
}

// move saves the container, ends it, and restores it with another supervisor.
func (s *supervisor) move() *supervisor {
	s.b.t.Helper()
	image, _ := s.save()
	s.must(order{Do: "end"})
	next := s.b.start()
	next.must(order{Do: "restore", Image: image})
	return next
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	prototest.Eventually(t, what, ok)
}

func isAny(r report, name string) bool { return slices.Contains(r.Is, name) }

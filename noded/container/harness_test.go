package container

import (
	"bufio"
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
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// The tests that save and restore start supervisors: processes with a mount
// namespace of their own that do what they are told with one container.

// supervisorWord is the first argument of such a process.
const supervisorWord = "test-supervisor"

const testUID = 4242

// initProgram is ginit, built when the first test needs it.
var initProgram string

var testParent = fmt.Sprintf("/gleaner-container-test-%d", os.Getpid())

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervisorWord {
		if err := supervise(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if initProgram != "" {
		os.Remove(initProgram)
		if removed, err := cgroup.New(testParent, cgroup.Limits{}).RemoveEmpty(); err != nil || !removed {
			fmt.Fprintln(os.Stderr, "left behind: cgroup", testParent, err)
			code = 1
		}
	}
	os.Exit(code)
}

// order is what a supervisor is told to do.
type order struct {
	Do      string // "start", "freeze", "thaw", "save", "dump", "reasons", "end", "restore", "wait"
	ID      string
	Image   string
	Private bool   // network
	Script  string // of a start
	Output  string // the script's, on the host
	Home    string
	Parts   string // directory of the parts
	Init    string
	Parent  string
	CRIU    string
	Groups  []uint32
	Timeout time.Duration
}

// report is how it went.
type report struct {
	Error    string
	Is       []string // which of the known errors it is
	Pid      int
	Code     int
	Signal   int
	Manifest *checkpoint.Manifest
	Reasons  []string
	Took     map[string]time.Duration
}

var knownErrors = map[string]error{
	"misfit": ErrMisfit, "manifest": checkpoint.ErrManifest, "half": checkpoint.ErrHalf, "runs": checkpoint.ErrRuns,
	"let go": checkpoint.ErrLetGo, "incomplete": checkpoint.ErrIncomplete, "deadline": context.DeadlineExceeded, "obstacles": checkpoint.ErrObstacles,
	"unsettled": checkpoint.ErrUnsettled,
}

// supervise is the supervisor process, on its main goroutine.
func supervise() error {
	if err := Isolate(); err != nil {
		return err
	}
	unix.Umask(0o022)
	var c *Container
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var o order
		if err := errors.Join(err, json.Unmarshal(line, &o)); err != nil {
			return err
		}
		r := report{Took: map[string]time.Duration{}}
		begin := time.Now()
		c, err = o.obey(c, &r)
		r.Took[o.Do] = time.Since(begin)
		if err != nil {
			r.Error = err.Error()
		}
		for name, known := range knownErrors {
			if errors.Is(err, known) {
				r.Is = append(r.Is, name)
			}
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

func (o *order) obey(c *Container, r *report) (*Container, error) {
	ctx := context.Background()
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	engine, rejected := checkpoint.Find(context.Background(), []string{o.CRIU})
	if engine == nil {
		return c, fmt.Errorf("no CRIU: %v", rejected)
	}
	group := func() *cgroup.Group { return cgroup.New(c.spec.Cgroup.Path, cgroup.Limits{}) }
	switch o.Do {
	case "start":
		spec, cleanup, err := o.spec()
		if err != nil {
			return c, err
		}
		defer cleanup()
		if spec.Filter, err = CompileFilter(); err != nil {
			return c, err
		}
		started, err := Start(ctx, spec)
		if err == nil {
			c, r.Pid = started, started.Pid()
		}
		return c, err
	case "freeze":
		return c, group().Freeze(ctx)
	case "thaw":
		return c, group().Thaw(ctx)
	case "save":
		var err error
		begin := time.Now()
		r.Manifest, err = c.Save(ctx, engine, SaveOptions{
			Dir: o.Image, Log: filepath.Dir(o.Image), Copied: func() { r.Took["copied"] = time.Since(begin) },
		})
		return c, err
	case "dump": // with CRIU alone
		mounts, err := foreignMounts(c.Pid())
		if err != nil {
			return c, err
		}
		_, err = engine.Dump(ctx, checkpoint.DumpOptions{Images: o.Image, Log: filepath.Dir(o.Image), Pid: c.Pid(), Tree: group(), External: mounts})
		return c, err
	case "reasons":
		found, err := c.NotSavable(false)
		for _, o := range found {
			r.Reasons = append(r.Reasons, o.String())
		}
		return c, err
	case "end":
		err := errors.Join(c.Signal(unix.SIGKILL), c.waitFor(r), c.Destroy())
		return nil, err
	case "wait":
		err := errors.Join(c.waitFor(r), c.Destroy())
		return nil, err
	case "restore":
		spec, cleanup, err := o.spec()
		if err != nil {
			return c, err
		}
		defer cleanup()
		data, err := os.ReadFile(o.Image + ".json")
		if err != nil {
			return c, err
		}
		manifest := new(checkpoint.Manifest)
		if err := json.Unmarshal(data, manifest); err != nil {
			return c, err
		}
		restored, err := Restore(ctx, spec, engine, Image{Dir: o.Image, Manifest: manifest, Log: filepath.Dir(o.Image)})
		if err == nil {
			c, r.Pid = restored, restored.Pid()
		}
		return c, err
	}
	return c, fmt.Errorf("%q is no order", o.Do)
}

func (c *Container) waitFor(r *report) error {
	code, signal, err := c.Wait()
	r.Code, r.Signal = code, int(signal)
	return err
}

// spec is a small version of what the shim prepares.
func (o *order) spec() (*Spec, func(), error) {
	dir := filepath.Join(o.Parts, o.ID)
	run := filepath.Join(dir, "run")
	for _, path := range []string{dir, run, filepath.Join(run, pid1.StdioDir)} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, nil, err
		}
		if path != dir {
			if err := os.Chown(path, testUID, testUID); err != nil {
				return nil, nil, err
			}
		}
	}
	for name, data := range map[string]string{"ginit": "", pid1.ScriptFile: o.Script, pid1.StdioDir + "/stdout": ""} {
		path := filepath.Join(run, name)
		if err := errors.Join(os.WriteFile(path, []byte(data), 0o700), os.Chown(path, testUID, testUID)); err != nil {
			return nil, nil, err
		}
	}
	user := User{UID: testUID, GID: testUID, Groups: o.Groups, Name: "ann", Home: o.Home}
	output, err := OpenAs(user, o.Output, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o022)
	if err != nil {
		return nil, nil, err
	}
	work, err := OpenWorkDir(user, o.Home)
	if err != nil {
		output.Close()
		return nil, nil, err
	}
	inside := pid1.Dir + "/" + pid1.StdioDir + "/stdout"
	group := cgroup.New(o.Parent+"/"+o.ID, cgroup.Limits{Devices: AllowedDevices(nil), DenyOtherDevices: true})
	spec := &Spec{
		ID: o.ID, Dir: dir, User: user, HostName: "n1", PrivateNetwork: o.Private, RunDir: run, InitPath: o.Init,
		WorkDir: work, Files: []File{{output, inside}}, Cgroup: group.Config(), Keep: []string{o.Parts},
		Orders: &pid1.Config{Batch: &pid1.Batch{
			Argv: []string{pid1.Dir + "/" + pid1.ScriptFile}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + o.Home},
			Cwd: step.Bytes(o.Home), Umask: 0o022, Stdin: os.DevNull, Stdout: inside,
		}},
	}
	return spec, func() { output.Close(); work.File.Close() }, nil
}

// bed is a place for parts and a user's home.
type bed struct {
	t      testing.TB
	dir    string
	engine *checkpoint.Engine
	groups []uint32
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.group().Kill(ctx); err != nil {
		s.b.t.Errorf("left behind: %v", err)
	}
	for range 100 {
		if err := s.group().Remove(); err == nil || errors.Is(err, cgroup.ErrNotFound) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.b.t.Errorf("left behind: %s", s.group().Path())
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
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not happen that %s", what)
		}
	}
}

func isAny(r report, name string) bool { return slices.Contains(r.Is, name) }

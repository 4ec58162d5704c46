package container

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// The tests that save and restore start supervisors: processes with a mount
// namespace of their own that do what they are told with one container.

// supervisorWord is the first argument of such a process.
const supervisorWord = "test-supervisor"

const testUID = 4242

// initProgram is ginit, built when the first test needs it, unless initVariable
// names one.
var initProgram string

const initVariable = "GLEANER_TEST_GINIT"

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
		if os.Getenv(initVariable) == "" {
			os.Remove(initProgram)
		}
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
	Private bool // network
	Nested  bool
	Root    bool   // it is a job of root's
	Script  string // of a start
	Output  string // the script's, on the host
	Home    string
	Parts   string // directory of the parts
	Init    string
	Parent  string
	CRIU    string
	Groups  []uint32
	Devices []Device
	Others  []string // OtherDevices
	Allowed []Device // by the control group, beside Devices
	Timeout time.Duration
	AsSaved bool // of a restore

	DiskBytes uint64 // 0 = 1 GiB
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
	"let go": checkpoint.ErrReleased, "incomplete": checkpoint.ErrIncomplete, "deadline": context.DeadlineExceeded, "obstacles": checkpoint.ErrObstacles,
	"unsettled": checkpoint.ErrUnsettled, "between": checkpoint.ErrBetween,
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
	group := func() *cgroup.Group { return cgroup.New(c.spec.Cgroup.Path, cgroup.Limits{}) }
	switch o.Do {
	case "start":
		spec, cleanup, err := o.spec()
		if err != nil {
			return c, err
		}
		defer cleanup()
		if spec.Filter, err = CompileFilter(o.Nested); err != nil {
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
		engine, err := o.engine()
		if err != nil {
			return c, err
		}
		r.Manifest, err = c.Save(ctx, engine, SaveOptions{Dir: o.Image, Log: filepath.Dir(o.Image)})
		return c, err
	case "dump": // with CRIU alone
		engine, err := o.engine()
		if err != nil {
			return c, err
		}
		mounts, err := foreignMounts(c.Pid())
		if err != nil {
			return c, err
		}
		_, err = engine.Dump(ctx, checkpoint.DumpOptions{Images: o.Image, Log: filepath.Dir(o.Image), Pid: c.Pid(), Tree: group(), External: mounts})
		return c, err
	case "reasons":
		found, err := c.NotSavable()
		for _, o := range found {
			r.Reasons = append(r.Reasons, o.String())
		}
		return c, err
	case "end":
		err := errors.Join(c.Signal(unix.SIGKILL), c.waitFor(r), c.Destroy(), ownDisk.Discard())
		return nil, err
	case "wait":
		err := errors.Join(c.waitFor(r), c.Destroy(), ownDisk.Discard())
		return nil, err
	case "restore":
		engine, err := o.engine()
		if err != nil {
			return c, err
		}
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
		restored, err := Restore(ctx, spec, engine, Image{Dir: o.Image, Manifest: manifest, AsSaved: o.AsSaved, Log: filepath.Dir(o.Image)})
		if err == nil {
			c, r.Pid = restored, restored.Pid()
		}
		return c, err
	}
	return c, fmt.Errorf("%q is no order", o.Do)
}

// engine tries CRIU out, which takes as long as to start a container.
func (o *order) engine() (*checkpoint.Engine, error) {
	engine, rejected := checkpoint.Find(context.Background(), []string{o.CRIU})
	if engine == nil {
		return nil, fmt.Errorf("no CRIU: %v", rejected)
	}
	return engine, nil
}

func (c *Container) waitFor(r *report) error {
	code, signal, err := c.Wait()
	r.Code, r.Signal = code, int(signal)
	return err
}

// ownDisk is the supervisor's.
var ownDisk *Disk

func (o *order) mountDisk(dir, at string) error {
	bytes := o.DiskBytes
	if bytes == 0 {
		bytes = 1 << 30
	}
	file := filepath.Join(dir, "disk.ext4")
	if err := MakeDisk(context.Background(), file, bytes); err != nil {
		return err
	}
	var err error
	ownDisk, err = MountDisk(file, at)
	return err
}

// spec is a small version of what the shim prepares.
func (o *order) spec() (*Spec, func(), error) {
	dir := filepath.Join(o.Parts, o.ID)
	layers := filepath.Join(dir, "disk")
	run := filepath.Join(layers, "run")
	user := User{UID: testUID, GID: testUID, Groups: o.Groups, Name: "ann", Home: o.Home}
	if o.Root {
		user = User{Name: "root", Home: o.Home}
	}
	if err := errors.Join(os.MkdirAll(layers, 0o700), o.mountDisk(dir, layers)); err != nil {
		return nil, nil, err
	}
	for _, path := range []string{run, filepath.Join(run, pid1.StdioDir)} {
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, int(user.UID), int(user.GID))); err != nil {
			return nil, nil, err
		}
	}
	for name, data := range map[string]string{"ginit": "", pid1.ScriptFile: o.Script, pid1.StdioDir + "/stdout": ""} {
		path := filepath.Join(run, name)
		if err := errors.Join(os.WriteFile(path, []byte(data), 0o700), os.Chown(path, int(user.UID), int(user.GID))); err != nil {
			return nil, nil, err
		}
	}
	output, err := userpath.OpenFile(user.Identity(), o.Output, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o022)
	if err != nil {
		return nil, nil, err
	}
	work, err := userpath.OpenDirectory(user.Identity(), o.Home)
	if err != nil {
		output.Close()
		return nil, nil, err
	}
	inside := pid1.Dir + "/" + pid1.StdioDir + "/stdout"
	group := cgroup.New(o.Parent+"/"+o.ID, cgroup.Limits{Devices: AllowedDevices(slices.Concat(o.Devices, o.Allowed)), DenyOtherDevices: true})
	spec := &Spec{
		ID: o.ID, Dir: dir, LayerDir: layers, User: user, HostName: "n1", PrivateNetwork: o.Private, Nested: o.Nested, RunDir: run, InitPath: o.Init,
		WorkDir: work, Files: []File{{output, inside}}, Cgroup: group.Config(), Keep: []string{o.Parts},
		Devices: o.Devices, OtherDevices: o.Others,
		Orders: &pid1.Config{Batch: &pid1.Batch{
			Argv: []string{pid1.Dir + "/" + pid1.ScriptFile}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + o.Home},
			Cwd: step.Bytes(o.Home), Umask: 0o022, Stdin: os.DevNull, Stdout: inside,
		}},
	}
	return spec, func() { output.Close(); work.File.Close() }, nil
}

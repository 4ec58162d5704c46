package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// Whatever has become of an allocation's files, its job is ended and told, what was
// the allocation's goes, and other jobs continue.
func TestDamagedFiles(t *testing.T) {
	noRace(t)
	b := newBed(t)
	bystander := b.launch(b.order("sleep 1000"))
	bystander.ready()
	for name, spoil := range map[string]func(d bundle.Dir) error{
		"order.pb: is damaged: its checksum": func(d bundle.Dir) error { return os.WriteFile(d.Path(bundle.OrderFile), []byte("no order"), 0o600) },
		"its checksum is wrong": func(d bundle.Dir) error {
			data, err := os.ReadFile(d.Path(bundle.OrderFile))
			return errors.Join(err, os.WriteFile(d.Path(bundle.OrderFile), data[:len(data)/2], 0o600))
		},
		"its order is for": func(d bundle.Dir) error {
			data := prototest.Marshal(&pb.StartAlloc{Alloc: &pb.AllocId{Job: 999999, Epoch: 1}})
			return os.WriteFile(d.Path(bundle.OrderFile), bundle.Seal(data), 0o600)
		},
		"order.pb: no such file":      func(d bundle.Dir) error { return os.Remove(d.Path(bundle.OrderFile)) },
		"settings.json: no such file": func(d bundle.Dir) error { return os.Remove(d.Path(bundle.SettingsFile)) },
		"unexpected end of JSON":      func(d bundle.Dir) error { return os.Truncate(d.Path(bundle.SettingsFile), 0) },
		"invalid character":           func(d bundle.Dir) error { return os.WriteFile(d.Path(bundle.SettingsFile), []byte("\x00\x00"), 0o600) },
		"not a regular file": func(d bundle.Dir) error {
			return errors.Join(os.Remove(d.Path(bundle.OrderFile)), unix.Mkfifo(d.Path(bundle.OrderFile), 0o600))
		},
		"too many levels of symbolic links": func(d bundle.Dir) error {
			return errors.Join(os.Rename(d.Path(bundle.OrderFile), d.Path("elsewhere")), os.Symlink("elsewhere", d.Path(bundle.OrderFile)))
		},
		"order.pb: is damaged": func(d bundle.Dir) error {
			return errors.Join(os.Truncate(d.Path(bundle.OrderFile), 0), os.Remove(d.Path(bundle.LockFile)))
		},
	} {
		s := b.launch(b.order("touch /tmp/x; sleep 1000"))
		s.ready()
		supervisor := s.pid()
		must(t, spoil(s.dir))
		handles, damaged, err := client.List(b.state, parent)
		must(t, err)
		if len(handles) != 1 || len(damaged) != 1 || !strings.Contains(damaged[0].Error(), name) {
			t.Fatalf("%s: %d allocations, damaged: %v", name, len(handles), damaged)
		}
		d := damaged[0]
		if id := d.Order().Alloc; id.Job != s.order.Alloc.Job || id.Epoch != 1 {
			t.Errorf("%s: it is part %v", name, id)
		}
		result, err := d.Recover(context.Background())
		must(t, err)
		wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		if !strings.Contains(result.Detail, name) {
			t.Errorf("%s: the detail is %q", name, result.Detail)
		}
		if strings.Contains(commandLine(supervisor), string(s.dir)) {
			t.Errorf("%s: the supervisor still runs", name)
		}
		if _, err := cgroup.Open(parent + "/" + s.dir.ID()); !errors.Is(err, cgroup.ErrNotFound) {
			t.Errorf("%s: its control group is left: %v", name, err)
		}
		must(t, d.Forget())
		if exists(string(s.dir)) {
			t.Errorf("%s: its directory is left", name)
		}
	}
	if !bystander.Alive() || len(bystander.processes()) == 0 {
		t.Error("another job was ended")
	}
}

// What lies where allocations belong and is none is told, and neither followed nor
// removed.
func TestForeignDirectories(t *testing.T) {
	b := newBed(t)
	jobs := filepath.Join(b.state, bundle.JobsDir)
	host := filepath.Join(b.dir, "host")
	must(t, os.MkdirAll(host+"/run", 0o700))
	must(t, os.WriteFile(host+"/precious", nil, 0o600))
	must(t, os.MkdirAll(jobs, 0o700))
	// Of another allocation than its name says, with all an allocation has.
	order := b.order("sleep 1000")
	must(t, bundle.Create(bundle.Dir(jobs+"/"+bundle.ID(order.Alloc)), &b.settings, order))
	must(t, os.Rename(jobs+"/"+bundle.ID(order.Alloc), host+"/alloc"))

	must(t, os.Symlink(host, jobs+"/4000012.1"))
	must(t, os.Symlink(host+"/alloc", jobs+"/"+bundle.ID(order.Alloc)))
	must(t, os.Mkdir(jobs+"/4000012.2", 0o700))
	must(t, os.Lchown(jobs+"/4000012.2", testUID, testGID))
	must(t, os.Mkdir(jobs+"/4000012.3", 0o700))
	must(t, os.Chmod(jobs+"/4000012.3", 0o777))
	must(t, os.WriteFile(jobs+"/4000012.4", nil, 0o600))
	must(t, os.Mkdir(jobs+"/4000012.5", 0o700))
	must(t, os.WriteFile(jobs+"/4000012.5/thesis.tex", nil, 0o600))
	want := map[string]string{
		bundle.ID(order.Alloc): "symbolic link", "4000012.1": "symbolic link", "4000012.2": "belongs to user 4242", "4000012.3": "others may write",
		"4000012.4": "not a directory", "4000012.5": "none of an allocation's files",
	}
	_, damaged, err := client.List(b.state, parent)
	must(t, err)
	if len(damaged) != len(want) {
		t.Errorf("%d damaged allocations, want %d", len(damaged), len(want))
	}
	for _, d := range damaged {
		name := bundle.ID(d.Order().Alloc)
		_, err := d.Recover(context.Background())
		must(t, err)
		err = d.Forget()
		var left *remove.LeftOver
		if !errors.As(err, &left) || left.Path != jobs+"/"+name || !strings.Contains(left.Err.Error(), want[name]) || !strings.HasSuffix(left.Err.Error(), "remove it by hand") {
			t.Errorf("%s: %v", name, err)
		}
		if !exists(jobs + "/" + name) {
			t.Errorf("%s was removed", name)
		}
	}
	if !exists(host+"/precious") || !exists(host+"/alloc/order.pb") {
		t.Error("a link was followed")
	}
	// A part of that name is not launched into it either.
	self, err := os.Executable()
	must(t, err)
	if _, err := client.Launch(context.Background(), self, b.settings, order); !errors.Is(err, bundle.ErrForeign) {
		t.Errorf("Launch: %v", err)
	}
	for _, d := range damaged {
		must(t, os.RemoveAll(jobs+"/"+bundle.ID(d.Order().Alloc)))
		must(t, d.Forget())
	}
}

// A result that was cut off is no result.
func TestDamagedResult(t *testing.T) {
	b := newBed(t)
	for name, spoil := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"cut off": func(path string) error { return os.Truncate(path, 5) },
		"garbage": func(path string) error { return os.WriteFile(path, []byte("garbage"), 0o600) },
		"zeros":   func(path string) error { return os.WriteFile(path, make([]byte, 100), 0o600) },
	} {
		s := b.launch(b.order("exit 3"))
		wantExit(t, s.wait(), 3)
		must(t, spoil(s.dir.Path(bundle.ResultFile)))
		if _, err := s.Result(); !errors.Is(err, bundle.ErrDamaged) {
			t.Errorf("%s: Result: %v", name, err)
		}
		result, err := s.Recover(context.Background())
		must(t, err)
		wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		if again, err := s.Result(); err != nil || again.EndMs != result.EndMs {
			t.Errorf("%s: the new result: %v, %v", name, again, err)
		}
		must(t, s.Forget())
	}
}

// Sweep removes what is half made or half deleted, and control groups of dead
// allocations, and tells of the rest.
func TestSweep(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	jobs := filepath.Join(b.state, bundle.JobsDir)
	must(t, os.MkdirAll(jobs+"/"+bundle.NewPrefix+"70.1/state", 0o700))
	must(t, os.MkdirAll(jobs+"/"+bundle.GonePrefix+"71.1/state", 0o700))
	must(t, os.WriteFile(jobs+"/README", nil, 0o600))
	dead, busy := cgroup.New(parent+"/4000000.1", cgroup.Limits{}), cgroup.New(parent+"/4000000.2", cgroup.Limits{})
	must(t, dead.Create())
	must(t, busy.Create())
	t.Cleanup(func() { _ = busy.Remove() })
	stranger := sleeper(t)
	must(t, busy.Add(stranger))

	sweep := func() []*remove.LeftOver {
		return client.Sweep(b.state, parent, func(name string) bool { return name == s.dir.ID() })
	}
	left := sweep()
	if len(left) != 2 || left[0].Path != jobs+"/README" || left[1].Path != "cgroup "+parent+"/4000000.2" || !errors.Is(left[1].Err, cgroup.ErrBusy) {
		t.Errorf("left over: %v", left)
	}
	if _, err := cgroup.Open(parent + "/4000000.1"); !errors.Is(err, cgroup.ErrNotFound) {
		t.Errorf("the group of a dead allocation: %v", err)
	}
	if exists(jobs+"/"+bundle.NewPrefix+"70.1") || exists(jobs+"/"+bundle.GonePrefix+"71.1") || !exists(jobs+"/README") {
		t.Error("the wrong directories were removed")
	}
	if unix.Kill(stranger, 0) != nil || !s.Alive() {
		t.Error("somebody was killed")
	}
	must(t, unix.Kill(stranger, unix.SIGKILL))
	must(t, os.Remove(jobs+"/README"))
	eventually(t, "nothing is left over", func() bool { return len(sweep()) == 0 })
}

// commandLine is "" of a process that has gone.
func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

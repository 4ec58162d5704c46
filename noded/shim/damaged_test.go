package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Whatever has become of a part's files, its job is ended and told, what was
// the part's goes, and other jobs go on.
func TestDamagedFiles(t *testing.T) {
	b := newBed(t)
	bystander := b.launch(b.order("sleep 1000"))
	bystander.ready()
	for name, spoil := range map[string]func(d directory) error{
		"order.pb: is damaged: its checksum": func(d directory) error { return os.WriteFile(d.path(orderFile), []byte("no order"), 0o600) },
		"its checksum is wrong": func(d directory) error {
			data, err := os.ReadFile(d.path(orderFile))
			return errors.Join(err, os.WriteFile(d.path(orderFile), data[:len(data)/2], 0o600))
		},
		"its order is for": func(d directory) error {
			data, err := encodeRecord(&pb.StartPart{Part: &pb.PartId{Job: 999999, Epoch: 1}})
			return errors.Join(err, os.WriteFile(d.path(orderFile), data, 0o600))
		},
		"order.pb: no such file":      func(d directory) error { return os.Remove(d.path(orderFile)) },
		"settings.json: no such file": func(d directory) error { return os.Remove(d.path(settingsFile)) },
		"unexpected end of JSON":      func(d directory) error { return os.Truncate(d.path(settingsFile), 0) },
		"invalid character":           func(d directory) error { return os.WriteFile(d.path(settingsFile), []byte("\x00\x00"), 0o600) },
		"not a regular file": func(d directory) error {
			return errors.Join(os.Remove(d.path(orderFile)), unix.Mkfifo(d.path(orderFile), 0o600))
		},
		"too many levels of symbolic links": func(d directory) error {
			return errors.Join(os.Rename(d.path(orderFile), d.path("elsewhere")), os.Symlink("elsewhere", d.path(orderFile)))
		},
		"order.pb: is damaged": func(d directory) error {
			return errors.Join(os.Truncate(d.path(orderFile), 0), os.Remove(d.path(lockFile)))
		},
	} {
		s := b.launch(b.order("touch /tmp/x; sleep 1000"))
		s.ready()
		supervisor := s.pid()
		must(t, spoil(s.dir))
		handles, damaged, err := List(b.state, parent)
		must(t, err)
		if len(handles) != 1 || len(damaged) != 1 || !strings.Contains(damaged[0].Error(), name) {
			t.Fatalf("%s: %d parts, damaged: %v", name, len(handles), damaged)
		}
		d := damaged[0]
		if id := d.Order().Part; id.Job != s.order.Part.Job || id.Epoch != 1 {
			t.Errorf("%s: it is part %v", name, id)
		}
		result, err := d.Recover(context.Background())
		must(t, err)
		wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		if !strings.Contains(result.Detail, name) {
			t.Errorf("%s: the detail is %q", name, result.Detail)
		}
		if unix.Kill(supervisor, 0) == nil && supervises(supervisor, s.dir) {
			t.Errorf("%s: the supervisor still runs", name)
		}
		if _, err := cgroup.Open(parent + "/" + s.dir.id()); !errors.Is(err, cgroup.ErrNotFound) {
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

// What lies where parts belong and is none is told, and neither followed nor
// removed.
func TestForeignDirectories(t *testing.T) {
	b := newBed(t)
	jobs := filepath.Join(b.state, jobsDir)
	host := filepath.Join(b.dir, "host")
	must(t, os.MkdirAll(host+"/run", 0o700))
	must(t, os.WriteFile(host+"/precious", nil, 0o600))
	must(t, os.MkdirAll(jobs, 0o700))
	// Of another part than its name says, with all a part has.
	order := b.order("sleep 1000")
	must(t, makeDirectory(directory(jobs+"/"+partID(order.Part)), &b.settings, order))
	must(t, os.Rename(jobs+"/"+partID(order.Part), host+"/part"))

	must(t, os.Symlink(host, jobs+"/4000012.1"))
	must(t, os.Symlink(host+"/part", jobs+"/"+partID(order.Part)))
	must(t, os.Mkdir(jobs+"/4000012.2", 0o700))
	must(t, os.Lchown(jobs+"/4000012.2", testUID, testGID))
	must(t, os.Mkdir(jobs+"/4000012.3", 0o700))
	must(t, os.Chmod(jobs+"/4000012.3", 0o777))
	must(t, os.WriteFile(jobs+"/4000012.4", nil, 0o600))
	must(t, os.Mkdir(jobs+"/4000012.5", 0o700))
	must(t, os.WriteFile(jobs+"/4000012.5/thesis.tex", nil, 0o600))
	want := map[string]string{
		partID(order.Part): "symbolic link", "4000012.1": "symbolic link", "4000012.2": "belongs to user 4242", "4000012.3": "others may write",
		"4000012.4": "not a directory", "4000012.5": "none of a part's files",
	}
	_, damaged, err := List(b.state, parent)
	must(t, err)
	if len(damaged) != len(want) {
		t.Errorf("%d damaged parts, want %d", len(damaged), len(want))
	}
	for _, d := range damaged {
		name := d.dir.id()
		_, err := d.Recover(context.Background())
		must(t, err)
		err = d.Forget()
		var left *LeftOver
		if !errors.As(err, &left) || left.Path != jobs+"/"+name || !strings.Contains(left.Err.Error(), want[name]) || !strings.HasSuffix(left.Err.Error(), "remove it by hand") {
			t.Errorf("%s: %v", name, err)
		}
		if !exists(jobs + "/" + name) {
			t.Errorf("%s was removed", name)
		}
	}
	if !exists(host+"/precious") || !exists(host+"/part/order.pb") {
		t.Error("a link was followed")
	}
	// A part of that name is not launched into it either.
	self, err := os.Executable()
	must(t, err)
	if _, err := Launch(context.Background(), self, b.settings, order); !errors.Is(err, ErrForeign) {
		t.Errorf("Launch: %v", err)
	}
	for _, d := range damaged {
		must(t, os.RemoveAll(jobs+"/"+d.dir.id()))
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
		must(t, spoil(s.dir.path(resultFile)))
		if _, err := s.Result(); !errors.Is(err, ErrDamaged) {
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
// parts, and tells of the rest.
func TestSweep(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	jobs := filepath.Join(b.state, jobsDir)
	must(t, os.MkdirAll(jobs+"/"+newPrefix+"70.1/state", 0o700))
	must(t, os.MkdirAll(jobs+"/"+gonePrefix+"71.1/state", 0o700))
	must(t, os.WriteFile(jobs+"/README", nil, 0o600))
	dead, busy := cgroup.New(parent+"/4000000.1", cgroup.Limits{}), cgroup.New(parent+"/4000000.2", cgroup.Limits{})
	must(t, dead.Create())
	must(t, busy.Create())
	t.Cleanup(func() { _ = busy.Remove() })
	stranger := sleeper(t)
	must(t, busy.Add(stranger))

	sweep := func() []*LeftOver {
		return Sweep(b.state, parent, func(name string) bool { return name == s.dir.id() })
	}
	left := sweep()
	if len(left) != 2 || left[0].Path != jobs+"/README" || left[1].Path != "cgroup "+parent+"/4000000.2" || !errors.Is(left[1].Err, cgroup.ErrBusy) {
		t.Errorf("left over: %v", left)
	}
	if _, err := cgroup.Open(parent + "/4000000.1"); !errors.Is(err, cgroup.ErrNotFound) {
		t.Errorf("the group of a dead part: %v", err)
	}
	if exists(jobs+"/"+newPrefix+"70.1") || exists(jobs+"/"+gonePrefix+"71.1") || !exists(jobs+"/README") {
		t.Error("the wrong directories were removed")
	}
	if unix.Kill(stranger, 0) != nil || !s.Alive() {
		t.Error("somebody was killed")
	}
	must(t, unix.Kill(stranger, unix.SIGKILL))
	must(t, os.Remove(jobs+"/README"))
	eventually(t, "nothing is left over", func() bool { return len(sweep()) == 0 })
}

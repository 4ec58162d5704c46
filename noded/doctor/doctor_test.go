package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// On the machine that runs these tests, which runs jobs, all is well.
func TestSoundMachine(t *testing.T) {
	n := newNode(t)
	handed := handedOn("/")
	found := n.examine()
	if now := handedOn("/"); !slices.Equal(now, handed) {
		t.Errorf("controllers of the root group: %v, before %v", now, handed)
	}
	for _, check := range []string{"configuration", "kernel", "ginit", "control groups", "container", "user namespaces", "overlay", "file systems in jobs", "system-call filter", "left over"} {
		want(t, found, check, finding.OK)
	}
	for _, f := range found {
		if f.Status == finding.Failed {
			t.Errorf("%+v", f)
		}
	}
	if entries, err := os.ReadDir(n.state); err != nil || len(entries) > 0 {
		t.Errorf("left in state_dir: %v %v", entries, err)
	}
}

// A machine that is not set up yet is examined where it will be.
func TestBeforeSetUp(t *testing.T) {
	n := newNode(t)
	must(t, os.Remove(n.state))
	n.state += "/of/node"
	want(t, n.examine(), "container", finding.OK)
	if _, err := os.Lstat(filepath.Join(n.dir, "state")); err == nil {
		t.Error("the examination made the state directory")
	}
}

func TestBadConfiguration(t *testing.T) {
	n := newNode(t)
	n.more = "log_levle = \"info\""
	found := n.examine()
	want(t, found, "configuration", finding.Failed, `unknown key "log_levle": did you mean log_level?`)
	want(t, found, "user namespaces", finding.OK)
}

func TestNoGinit(t *testing.T) {
	n := newNode(t)
	n.init = filepath.Join(n.dir, "nothing")
	found := n.examine()
	want(t, found, "ginit", finding.Failed, "no such file", "install bin/ginit")
	want(t, found, "container", finding.Skipped, "ginit")
	must(t, os.WriteFile(n.init, nil, 0o644))
	want(t, n.examine(), "ginit", finding.Failed, "is not a program")
	must(t, os.Chmod(n.init, 0o775))
	want(t, n.examine(), "ginit", finding.Failed, "mode 0775: others may change it")
}

func TestNoexec(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	n.more = `tmp_disk = "unbounded"` // else its files lie on a disk of the job's own
	tmpfs(t, n.state, unix.MS_NOEXEC, "size=4m,mode=711")
	want(t, n.examine(), "container", finding.Failed, "remount,exec")
	must(t, unix.Mount("", n.state, "", unix.MS_REMOUNT, ""))
	want(t, n.examine(), "container", finding.OK)
}

func TestFullStateDir(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	tmpfs(t, n.state, 0, "nr_inodes=1,mode=711") // its root has the only one
	found := n.examine()
	want(t, found, "container", finding.Failed, "no space left")
	want(t, found, "file systems", finding.Failed, "no space left")
	want(t, found, "control groups", finding.OK)
}

// Where overlays may have no upper layer no job can start.
func TestStateDirOnOverlay(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	n.more = `tmp_disk = "unbounded"`
	top := filepath.Join(n.dir, "top")
	for _, name := range []string{"lower", "upper", "work"} {
		must(t, os.MkdirAll(filepath.Join(top, name), 0o755))
	}
	must(t, unix.Mount("test", n.state, "overlay", 0, "lowerdir="+top+"/lower,upperdir="+top+"/upper,workdir="+top+"/work"))
	t.Cleanup(func() { must(t, unix.Unmount(n.state, unix.MNT_DETACH)) })
	found := n.examine()
	want(t, found, "overlay", finding.Failed, "local ext4")
	want(t, found, "container", finding.Failed)
	want(t, found, "disks of jobs", finding.Warning, "unbounded")
	n.more = ""
	found = n.examine()
	want(t, found, "overlay", finding.OK)
	want(t, found, "container", finding.OK)
	want(t, found, "disks of jobs", finding.OK)
}

// Within a user namespace that may have none below it.
func TestNoUserNamespaces(t *testing.T) {
	n := newNode(t)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1 << 31}}
	found := n.examineAs(func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
		cmd.Args = append([]string{"sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Path = "/bin/sh"
	})
	want(t, found, "user namespaces", finding.Failed, "user.max_user_namespaces = 0", "/etc/sysctl.d/60-gleaner.conf")
	want(t, found, "file systems", finding.Skipped, "user namespace")
}

// With the control groups read-only, as in a container that was given none.
func TestNoControlGroups(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !strings.HasPrefix(m.FSType, "cgroup"), false })
	must(t, err)
	remount := func(flags uintptr) {
		for _, m := range mounts {
			must(t, unix.Mount("", m.Mountpoint, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""))
		}
	}
	remount(unix.MS_RDONLY)
	found := n.examine()
	remount(0)
	want(t, found, "control groups", finding.Failed, "read-only file system")
	want(t, found, "container", finding.Skipped, "control groups")
}

// On cgroup v2 a group with processes cannot limit groups below it.
func TestOccupiedParent(t *testing.T) {
	info, err := cgroup.Detect()
	if err != nil || info.Version != cgroup.V2 {
		t.Skip("needs cgroup v2 alone: v1 has no such rule")
	}
	n := newNode(t)
	parent := cgroup.New(n.parent, cgroup.Limits{})
	must(t, parent.Create())
	t.Cleanup(func() { must(t, cgroup.New(filepath.Dir(n.parent), cgroup.Limits{}).Remove()) })
	sleeper := exec.Command("sleep", "600")
	must(t, sleeper.Start())
	must(t, parent.Add(sleeper.Process.Pid))
	want(t, n.examine(), "control groups", finding.Failed, "has processes of its own", "(sleep)", "set cgroup_parent")
	must(t, sleeper.Process.Kill())
	_ = sleeper.Wait()
	want(t, n.examine(), "control groups", finding.OK)
}

// A kernel that says it is older than overlays over idmapped mounts.
func TestOldKernel(t *testing.T) {
	if _, err := exec.LookPath("setarch"); err != nil {
		t.Skip("needs setarch, of util-linux: lets the kernel pass for an older one")
	}
	n := newNode(t)
	found := n.examineAs(func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"setarch", "--uname-2.6"}, append([]string{cmd.Path}, cmd.Args[1:]...)...)
		cmd.Path, _ = exec.LookPath("setarch")
	})
	want(t, found, "kernel", finding.Failed, "Linux 2.6.", "need Linux 5.19")
}

// Somebody who is not root is told what was not looked at, and nothing fails.
func TestNotRoot(t *testing.T) {
	n := newNode(t)
	must(t, os.Chmod(n.dir, 0o755))
	must(t, os.Chmod(filepath.Dir(n.dir), 0o755))
	must(t, os.Chmod(filepath.Dir(n.init), 0o755))
	path := n.write()
	must(t, os.Chmod(path, 0o644))
	self := filepath.Join(filepath.Dir(n.init), "test-program")
	program, err := os.Executable()
	must(t, err)
	text, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(self, text, 0o755))
	found := n.examineAs(func(cmd *exec.Cmd) {
		cmd.Path = self
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	})
	for _, check := range []string{"control groups", "user namespaces", "file systems", "container", "left over"} {
		want(t, found, check, finding.Skipped, "sudo gdoctor")
	}
	for _, f := range found {
		if f.Status == finding.Failed {
			t.Errorf("%+v", f)
		}
	}
}

// A file server that does not answer costs time, and is told.
func TestServerAway(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	dead := filepath.Join(n.dir, "dead")
	deadServer(t, dead)
	want(t, n.examine(), "container", finding.OK)
	n.state = dead + "/state"
	found := n.examine()
	want(t, found, "configuration and state_dir", finding.Failed, "did not come back")
	want(t, found, "user namespaces", finding.OK)
}

func TestLeftOvers(t *testing.T) {
	if !privately(t) {
		return
	}
	n := newNode(t)
	jobs := filepath.Join(n.state, "jobs")
	for _, dir := range []string{"5.1", "6.1/run"} {
		must(t, os.MkdirAll(filepath.Join(jobs, dir), 0o700))
	}
	tmpfs(t, filepath.Join(jobs, "6.1/run"), 0, "size=1m")
	group := cgroup.New(n.parent+"/7.1", cgroup.Limits{})
	must(t, group.Create())
	t.Cleanup(func() { must(t, group.Remove()); must(t, cgroup.New(filepath.Dir(n.parent), cgroup.Limits{}).Remove()) })
	found := n.examine()
	want(t, found, "left over", finding.Warning, jobs+"/5.1", "control group "+n.parent+"/7.1", jobs+"/6.1/run is mounted", "gnoded stop-jobs")
	if _, err := os.Lstat(filepath.Join(jobs, "5.1")); err != nil {
		t.Error("the examination has removed something")
	}
}

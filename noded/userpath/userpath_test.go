package userpath

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is opened as a user is opened with the user's rights only, and the
// other threads keep theirs.
func TestAs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	dir, err := os.MkdirTemp("", "gleaner-asuser-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	group := filepath.Join(dir, "group")
	must(t, os.Mkdir(group, 0o770))
	must(t, os.Chown(group, 0, 4244))
	must(t, os.Chmod(group, 0o770))
	private := filepath.Join(dir, "private")
	must(t, os.WriteFile(private, nil, 0o600))

	u := Identity{UID: 4242, GID: 4243, Groups: []uint32{4243, 4244}}
	f, err := OpenFile(u, filepath.Join(group, "new"), os.O_CREATE|os.O_WRONLY, 0o077)
	must(t, err)
	defer f.Close()
	var stat unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &stat))
	if stat.Uid != 4242 || stat.Gid != 4243 || stat.Mode&0o777 != 0o600 {
		t.Errorf("its file is %d:%d mode %#o", stat.Uid, stat.Gid, stat.Mode)
	}
	if _, err := OpenFile(u, private, os.O_RDONLY, 0); !errors.Is(err, unix.EACCES) {
		t.Errorf("root's file: %v", err)
	}
	if _, err := OpenFile(Identity{UID: 4242, GID: 4243}, filepath.Join(group, "other"), os.O_CREATE|os.O_WRONLY, 0); !errors.Is(err, unix.EACCES) {
		t.Errorf("without the group: %v", err)
	}
	w, err := OpenDirectory(u, group)
	must(t, err)
	w.File.Close()
	if !w.Writable {
		t.Error("a directory of its group is not writable")
	}
	if w, err = OpenDirectory(u, dir); err != nil || w.Writable {
		t.Errorf("root's directory: %v, %v", w, err)
	}
	w.File.Close()
	if root, err := os.Open(private); err != nil {
		t.Errorf("root lost its rights: %v", err)
	} else {
		root.Close()
	}
}

// The thread has no capability, not even with uid 0, and follows none of the
// links by which this program's own files could be reached.
func TestNoPower(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	for _, id := range []Identity{{UID: 4242, GID: 4242}, {}} {
		must(t, As(id, 0, func() error {
			status, err := os.ReadFile("/proc/thread-self/status")
			for _, set := range []string{"CapEff", "CapPrm", "CapInh"} {
				if !strings.Contains(string(status), "\n"+set+":\t0000000000000000\n") {
					t.Errorf("user %d: %s is not empty", id.UID, set)
				}
			}
			return err
		}))
	}
	other := exec.Command("sleep", "1000") // root's, in the directory of root
	must(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	dir, err := os.MkdirTemp("", "gleaner-userpath-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	own, err := os.Open(dir)
	must(t, err)
	defer own.Close()
	must(t, os.Symlink("/proc/self/root/tmp", dir+"/link"))
	ann := Identity{UID: 4242, GID: 4242}
	for _, root := range []string{
		fmt.Sprintf("/proc/%d/root", other.Process.Pid), fmt.Sprintf("/proc/%d/cwd", other.Process.Pid), "/proc/self/root", "/proc/self/cwd",
		"/proc/thread-self/root", fmt.Sprintf("/proc/self/fd/%d", own.Fd()), dir + "/link",
	} {
		for _, path := range []string{root, root + "/", root + "/.", root + "/x"} {
			if d, err := OpenDirectory(ann, path); err == nil {
				d.File.Close()
				t.Errorf("%s was opened", path)
			}
			if d, err := MakeDirectory(ann, path+"/made", 0); err == nil {
				d.File.Close()
				t.Errorf("a directory was made below %s", path)
			}
			if f, err := OpenFile(ann, path+"/file", os.O_CREATE|os.O_WRONLY, 0); err == nil {
				f.Close()
				t.Errorf("a file was made below %s", path)
			}
			if err := RemoveDirectory(ann, path+"/sub"); errors.Is(err, unix.ENOENT) && !strings.HasSuffix(path, "/x") {
				t.Errorf("%s was entered to remove what is below: %v", path, err)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left in %s: %v, %v", dir, entries, err)
	}
}

// Directories are made as the user, with the umask, and what is there is opened.
func TestMakeDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	dir, err := os.MkdirTemp("", "gleaner-userpath-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	ann := Identity{UID: 4242, GID: 4243}
	must(t, os.Symlink("real", dir+"/link"))
	must(t, os.Mkdir(dir+"/real", 0o777))
	must(t, os.Chmod(dir+"/real", 0o777))
	for _, path := range []string{"a/b/c", "a/b/c", "link/x/", "a/./b/../d"} {
		d, err := MakeDirectory(ann, dir+"/"+path, 0o027)
		must(t, err)
		var stat unix.Stat_t
		must(t, unix.Fstat(int(d.File.Fd()), &stat))
		d.File.Close()
		if stat.Uid != 4242 || stat.Gid != 4243 || stat.Mode&0o7777 != 0o750 || !d.Writable {
			t.Errorf("%s: %d:%d mode %#o, writable %v", path, stat.Uid, stat.Gid, stat.Mode, d.Writable)
		}
	}
	for path, want := range map[string]error{
		"real/" + strings.Repeat("x", 300): unix.ENAMETOOLONG, strings.Repeat("x/", 2045): unix.ENAMETOOLONG, "a\x00b": unix.EINVAL,
	} {
		if _, err := MakeDirectory(ann, dir+"/"+path, 0); !errors.Is(err, want) {
			t.Errorf("%.20q: %v", path, err)
		}
	}
	must(t, RemoveDirectory(ann, dir+"/link/x"))
	if err := RemoveDirectory(ann, dir+"/a/b"); !errors.Is(err, unix.ENOTEMPTY) {
		t.Errorf("a directory that is not empty: %v", err)
	}
}

// What is opened beneath a directory is reached without any link and not above it,
// and by what the user may reach only.
func TestBeneath(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
	dir, err := os.MkdirTemp("", "gleaner-userpath-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	must(t, os.MkdirAll(dir+"/open/deep", 0o755))
	must(t, os.MkdirAll(dir+"/closed/deep", 0o755))
	must(t, os.Chmod(dir+"/closed", 0o700))
	must(t, os.Symlink("open", dir+"/link"))
	must(t, os.Symlink("deep", dir+"/open/last"))
	top, err := os.Open(dir)
	must(t, err)
	defer top.Close()
	for path, want := range map[string]error{
		"/open/deep": nil, "open": nil, "": nil, "/closed": nil, "closed/deep": unix.EACCES, "link/deep": unix.ELOOP, "open/last": unix.ELOOP,
		"../x": unix.EXDEV, "open/../../x": unix.EXDEV,
	} {
		file, err := Beneath(Identity{UID: 4242, GID: 4242}, top, path)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
		if err == nil {
			file.Close()
		}
	}
}

// Where something lies is told whatever name has led to it, and a mount is opened
// only while it is that one.
func TestWhere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(dir+"/real", 0o755))
	must(t, os.Symlink("/proc/sys", dir+"/proc"))
	must(t, os.Symlink("real", dir+"/link"))
	for path, want := range map[string]Place{
		dir + "/link": {Path: dir + "/real"}, dir + "/real/../link/": {Path: dir + "/real"}, dir + "/proc": {Path: "/proc/sys", Type: "proc"},
	} {
		file, err := os.Open(path)
		must(t, err)
		got, err := Where(file)
		file.Close()
		if err != nil || got.Path != want.Path || want.Type != "" && got.Type != want.Type || got.Kernels() != (want.Type != "") {
			t.Errorf("%s: %+v, %v, want %+v", path, got, err, want)
		}
	}
	gone, err := os.Open(dir + "/real")
	must(t, err)
	defer gone.Close()
	must(t, os.Remove(dir+"/real"))
	if _, err := Where(gone); !errors.Is(err, ErrNowhere) {
		t.Errorf("what was deleted: %v", err)
	}
	proc, err := os.Open("/proc")
	must(t, err)
	defer proc.Close()
	id, err := MountID(proc)
	must(t, err)
	for path, want := range map[string]error{"/proc": nil, "/": unix.ESTALE, dir + "/proc": unix.ELOOP, "/nosuch": unix.ENOENT} {
		file, err := OpenMount(path, id)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			file.Close()
		}
	}
}

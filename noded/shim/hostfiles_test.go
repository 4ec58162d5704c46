package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// outside mounts an empty file system over a directory that is not private to
// containers, for the test's own namespace, and answers it.
func outside(t *testing.T) string {
	t.Helper()
	mountTmpfs(t, "/srv", 0o755, "size=16m")
	return "/srv"
}

// What the host has mounted is there, with the user's own rights.
func TestHostMounts(t *testing.T) {
	if !privately(t) {
		return
	}
	b := newBed(t)
	top := outside(t)
	data, project, own, hidden := top+"/data", top+"/data/project", top+"/data/project/own", top+"/data/hidden"
	mountTmpfs(t, data, 0o755, "size=4m")
	must(t, os.WriteFile(data+"/roots", []byte("root's\n"), 0o644))
	must(t, os.Mkdir(hidden, 0o777))
	must(t, os.WriteFile(hidden+"/secret", []byte("secret\n"), 0o644))
	// A directory of a colleague from a directory service, closed but for the group.
	must(t, os.Mkdir(project, 0o770))
	must(t, os.Chown(project, 70123, 4244))
	must(t, unix.Chmod(project, 0o2770))
	mountTmpfs(t, own, 0o755, "size=4m")
	must(t, os.Chown(own, testUID, testGID))
	b.settings.HideDirs = []string{hidden}
	order := b.order(`stat -c '%U %a' ` + data + `/roots; cat ` + data + `/roots; touch ` + project + `/mine && stat -c %u:%g ` + project + `/mine
		echo kept > result; pwd; ls -A ` + hidden + ` | wc -l; (echo x >> ` + data + `/roots) 2>&1; (touch ` + hidden + `/x) 2>&1
		grep -c " ` + data + ` .*nosuid" /proc/self/mountinfo`)
	order.Spec.WorkDirectory, order.Spec.StandardOutput = own, b.home+"/out"
	_, out := b.runOrder(order)
	want := "root 644\nroot's\n4242:4244\n" + own + "\n0\n"
	if !strings.HasPrefix(out, want) || strings.Count(out, "ermission denied")+strings.Count(out, "ead-only") != 2 || !strings.HasSuffix(out, "\n1\n") {
		t.Errorf("got\n%s\nwant\n%s and two refusals and one mount", out, want)
	}
	if kept, err := os.ReadFile(own + "/result"); err != nil || string(kept) != "kept\n" {
		t.Errorf("what it wrote: %q, %v", kept, err)
	}
}

// A mount whose source is gone is left out; the job starts.
func TestDeletedMount(t *testing.T) {
	if !privately(t) {
		return
	}
	b := newBed(t)
	for _, target := range []string{"/etc/issue", "/etc/profile"} {
		source := filepath.Join(b.dir, filepath.Base(target))
		must(t, os.WriteFile(source, []byte("replaced\n"), 0o644))
		must(t, unix.Mount(source, target, "", unix.MS_BIND, ""))
		t.Cleanup(func() { must(t, unix.Unmount(target, unix.MNT_DETACH)) })
		if target == "/etc/issue" {
			must(t, os.Remove(source))
		}
	}
	result, out := b.run("cat /etc/profile; test -e /etc/issue && grep -c replaced /etc/issue; exit 0")
	wantExit(t, result, 0)
	if out != "replaced\n0\n" {
		t.Errorf("output %q", out)
	}
}

// A file server that does not answer holds up nobody who does not ask it.
func TestServerAway(t *testing.T) {
	if !privately(t) {
		return
	}
	b := newBed(t)
	top := outside(t)
	dead := top + "/dead"
	deadServer(t, dead)
	result, out := b.run("ls " + top)
	wantExit(t, result, 0)
	if out != "dead\n" {
		t.Errorf("output %q", out)
	}
	// Who uses it waits, but for ever only if nobody ends it.
	s := b.launch(b.order("ls " + dead))
	s.ready()
	time.Sleep(50 * time.Millisecond)
	_, err := s.client().End(context.Background(), &pb.EndAlloc{})
	must(t, err)
	wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 0, 9)
}

// deadServer mounts a file system at path whose server never says a word.
func deadServer(t *testing.T, path string) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("needs /dev/fuse: %v", err)
	}
	must(t, os.Mkdir(path, 0o755))
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse.Fd())
	if err := unix.Mount("dead", path, "fuse.dead", 0, options); err != nil {
		fuse.Close()
		t.Skipf("needs FUSE: %v", err)
	}
	t.Cleanup(func() {
		must(t, unix.Unmount(path, unix.MNT_DETACH))
		fuse.Close() // whoever waits for it gets an error
	})
}

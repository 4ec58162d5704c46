package shim

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever a job leaves, wherever it can write, nothing of it stays and
// nothing of the host's goes.
func TestLitter(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return
	}
	// In memory, since a disk that others use too may take minutes.
	mountTmpfs(t, "/srv", 0o755, "size=1g")
	t.Setenv("TMPDIR", "/srv")
	b := newBed(t)
	program := b.hostile()
	// A directory of the host's that everybody may write to: a job writes into
	// the layer over it.
	open, err := os.MkdirTemp("/var/lib", "gleaner-litter-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	must(t, os.WriteFile(open+"/precious", []byte("data"), 0o666))
	must(t, os.Chmod(open+"/precious", 0o666))
	must(t, os.Chmod(open, 0o777))
	others := filepath.Join(b.dir, "others")
	must(t, os.Mkdir(others, 0o755))
	must(t, os.WriteFile(others+"/precious", []byte("data"), 0o666))

	before := hostState(t, open, others, "/etc/passwd", "/root")
	order := b.order(`
		echo changed > ` + open + `/precious; mv ` + open + `/precious ` + open + `/moved
		mkdir ` + open + `/d /dev/shm/d
		` + program + ` litter 100000 /tmp || exit 3
		` + program + ` litter 3000 /var/tmp /dev/shm/d ` + open + `/d || exit 4
		mkdir /run/gleaner/d; ` + program + ` litter 3000 /run/gleaner/d || exit 5
		ln -s ` + others + ` /tmp/others; ln -s ` + b.state + ` /tmp/state; ln -s / /run/gleaner/root
		exit 7`)
	order.Allocation[0].MemoryBytes = 4 << 30 // the file system counts
	s := b.launch(order)
	wantExit(t, s.wait(), 7)
	if pids := s.processes(); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	must(t, s.Forget())
	if exists(string(s.dir)) {
		t.Error("its directory is left")
	}
	if after := hostState(t, open, others, "/etc/passwd", "/root"); after != before {
		t.Errorf("the host's files were\n%s\nand are\n%s", before, after)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), b.dir) {
		t.Errorf("mounts are left: %v\n%s", err, mounts)
	}
}

// Processes that do not want to end do, however many they are and however they
// got away from their parents.
func TestDaemons(t *testing.T) {
	b := newBed(t)
	b.settings.MaxProcesses = 300
	for name, script := range map[string]string{
		"double fork": `(setsid sh -c '(trap "" TERM HUP INT; sleep 1000; sleep 1000) & exit' & )`,
		"stopped":     `(trap '' TERM; sleep 1000) & kill -STOP $!; setsid sleep 1000 & kill -STOP $!`,
		"fork bomb":   `bomb() { bomb | bomb & }; sleep 0.3 & (bomb) 2>/dev/null; wait $!`,
		"namespaces":  `unshare -Urpmf --mount-proc sh -c 'mount -t tmpfs x /tmp; sleep 1000' 2>/dev/null & unshare -r sleep 1000 2>/dev/null &`,
		"orphans":     `i=0; while [ $i -lt 100 ]; do (sleep 1000 &); i=$((i+1)); done`,
	} {
		s := b.launch(b.order("cd /tmp; " + script + "\nexit 7"))
		wantExit(t, s.wait(), 7)
		if pids := s.processes(); len(pids) > 0 {
			t.Errorf("%s: processes are left: %v", name, pids)
		}
		must(t, s.Forget())
	}
}

// Root moves a process of the host's into a job's group: it is the job's from
// then on.
func TestForeignProcessInGroup(t *testing.T) {
	b := newBed(t)
	s := b.launch(b.order("sleep 1000"))
	s.ready()
	during := sleeper(t)
	must(t, groupOf(s).Add(during))
	_, err := s.client().End(t.Context(), endOrder(s))
	must(t, err)
	s.wait()
	eventually(t, "it is killed", func() bool { return unix.Kill(during, 0) != nil })

	// After the end of the allocation, but before it is forgotten.
	late := sleeper(t)
	must(t, groupOf(s).Create())
	must(t, groupOf(s).Add(late))
	must(t, s.Forget())
	eventually(t, "it is killed", func() bool { return unix.Kill(late, 0) != nil })
	s.checkGroupGone()
}

// hostState describes files and what is below directories.
func hostState(t *testing.T, paths ...string) string {
	t.Helper()
	var text strings.Builder
	for _, top := range paths {
		must(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			var sum [sha256.Size]byte
			if info.Mode().IsRegular() && info.Size() < 1<<20 {
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				sum = sha256.Sum256(data)
			}
			if entry.IsDir() && path != top {
				fmt.Fprintln(&text, path, info.Mode())
				return fs.SkipDir
			}
			fmt.Fprintf(&text, "%s %v %x\n", path, info.Mode(), sum[:4])
			return nil
		}))
	}
	return text.String()
}

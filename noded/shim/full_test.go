package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fill writes until a file system has no room for another byte, and answers
// the file that holds it all.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "fill")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else {
			must(t, err)
		}
	}
	return path
}

// On a full disk a job's end is known all the same, whether its supervisor
// lives to tell it or not.
func TestEndOnFullDisk(t *testing.T) {
	if !privately(t) {
		return
	}
	mountTmpfs(t, "/srv", 0o755, "size=16m")
	t.Setenv("TMPDIR", "/srv")
	b := newBed(t)
	for _, killed := range []bool{false, true} {
		s := b.launch(b.order("echo up > /tmp/up; while [ ! -e $HOME/go ]; do sleep 0.02; done; exit 3"))
		s.ready()
		eventually(t, "it runs", func() bool { return exists(s.inside(bundle.DiskDir, "tmp", "up")) })
		must(t, os.WriteFile(b.home+"/draft", nil, 0o644))
		filled := fill(t, "/srv")
		if killed {
			must(t, s.Kill())
			eventually(t, "its lock is free", func() bool { return !s.Alive() })
			result, err := s.Recover(context.Background())
			must(t, err)
			wantEnd(t, result, pb.EndCause_END_CAUSE_SUPERVISOR_DIED, 0, 0)
		} else {
			must(t, os.Rename(b.home+"/draft", b.home+"/go"))
			wantExit(t, s.wait(), 3)
			must(t, os.Remove(b.home+"/go"))
		}
		s.checkNothingLeft()
		must(t, s.Forget())
		must(t, os.Remove(filled))
	}
}

// fillInodes makes files until a file system has no inode left, and answers
// the directory that holds them.
func fillInodes(t *testing.T, dir string) (path string, count int) {
	t.Helper()
	path = filepath.Join(dir, "many")
	must(t, os.Mkdir(path, 0o700))
	for {
		err := os.WriteFile(filepath.Join(path, strconv.Itoa(count)), nil, 0o600)
		if errors.Is(err, unix.ENOSPC) {
			return path, count
		}
		must(t, err)
		count++
	}
}

// Wherever in a launch the room ends, nothing stays, and where there is a
// result it blames the disk.
func TestLaunchOnFullDisk(t *testing.T) {
	noRace(t)
	if !privately(t) {
		return
	}
	mountTmpfs(t, "/srv", 0o755, "size=4m,nr_inodes=200")
	t.Setenv("TMPDIR", "/srv")
	b := newBed(t)
	order := b.order("exit 0")
	order.Spec.WorkDirectory, order.Spec.StandardOutput = "/tmp", "/dev/null"
	ends := map[pb.EndCause]int{}
	try := func(room string) {
		job := lastJob.Add(1)
		order.Alloc.Job, order.Id.Job = job, job
		self, err := os.Executable()
		must(t, err)
		h, err := client.Launch(context.Background(), self, b.settings, order)
		switch {
		case err == nil:
			ends[b.follow(h).wait().Cause]++
			must(t, h.Forget())
		case errors.Is(err, unix.ENOSPC) && bundle.DiskFull(b.state, err), strings.Contains(err.Error(), "ended at once"):
			ends[pb.EndCause_END_CAUSE_UNSPECIFIED]++
		default:
			t.Errorf("%s: Launch: %v", room, err)
		}
		handles, damaged, err := client.List(b.state, parent)
		must(t, err)
		for _, h := range handles {
			_, _ = h.Recover(context.Background())
			must(t, h.Forget())
		}
		if len(damaged) > 0 {
			t.Errorf("%s: damaged: %v", room, damaged)
		}
		if left := client.Sweep(b.state, parent, func(string) bool { return false }); len(left) > 0 {
			t.Errorf("%s: left over: %v", room, left)
		}
	}
	for kilobytes := 0; kilobytes <= 96; kilobytes += 8 {
		filled := fill(t, "/srv")
		info, err := os.Stat(filled)
		must(t, err)
		must(t, os.Truncate(filled, info.Size()-int64(kilobytes)<<10))
		try(fmt.Sprint(kilobytes, " KiB free"))
		must(t, os.Remove(filled))
	}
	for inodes := 0; inodes <= 40; inodes += 3 {
		many, count := fillInodes(t, "/srv")
		for i := range inodes {
			must(t, os.Remove(filepath.Join(many, strconv.Itoa(count-1-i))))
		}
		try(fmt.Sprint(inodes, " inodes free"))
		must(t, remove.Tree(many))
	}
	t.Logf("ends: %v", ends)
	if ends[pb.EndCause_END_CAUSE_EXITED] == 0 || ends[pb.EndCause_END_CAUSE_NODE_FULL] == 0 || ends[pb.EndCause_END_CAUSE_UNSPECIFIED] == 0 || len(ends) != 3 {
		t.Error("not every kind of end was seen, or another")
	}
}

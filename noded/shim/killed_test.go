package shim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/save"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

var beingMade = regexp.MustCompile(`image \d+ was being made`)

// TestKilledInMidSave: a supervisor that is killed leaves nothing that Recover
// does not remove, and says what it died of.
func TestKilledInMidSave(t *testing.T) {
	b := newSavingBed(t)
	for _, step := range []string{"the mark", "the dump"} {
		order := b.counter()
		order.Spec.StandardOutput = "/dev/null"
		s := b.launch(order)
		s.ready()
		number := uint32(0)
		eventually(t, step, func() bool {
			// It is looked at while it is frozen; a save that was over before is repeated.
			must(t, unix.Kill(s.pid(), unix.SIGSTOP))
			files, _ := os.ReadDir(s.dir.Path(save.Dir, "criu"))
			marked := exists(s.dir.Path(bundle.MarkFile))
			if marked && (step == "the mark" || len(files) > 0) {
				return true
			}
			must(t, unix.Kill(s.pid(), unix.SIGCONT))
			if !marked {
				number++
				_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: number, Then: resume})
				must(t, err)
			}
			return false
		})
		criu := criuOf(s.pid())
		must(t, unix.Kill(s.pid(), unix.SIGKILL))
		eventually(t, "its lock is free", func() bool { return !s.Alive() })
		result, err := s.Recover(context.Background())
		must(t, err)
		if result.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED || !beingMade.MatchString(result.Detail) {
			t.Errorf("%s: ended %v", step, result)
		}
		s.checkNothingLeft()
		eventually(t, "criu is gone", func() bool { return criu == 0 || !isCRIU(criu) })
		must(t, s.Forget())
	}
}

// criuOf answers the CRIU that a supervisor has started, or 0.
func criuOf(supervisor int) int {
	return prototest.Child(supervisor, saysCRIU)
}

// isCRIU knows it by what it calls itself before its work, and while it works.
func isCRIU(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return saysCRIU(string(line))
}

func saysCRIU(commandLine string) bool {
	return strings.Contains(commandLine, "\x00swrk\x00") || strings.Contains(commandLine, "criu: ")
}

// TestKilledInMidRestore: nothing of the job runs afterwards.
func TestKilledInMidRestore(t *testing.T) {
	b := newSavingBed(t)
	order := b.counter()
	first := b.launch(order)
	first.ready()
	b.countsOn()
	saved := first.saveAndEnd(1)
	for delay := range 8 {
		next := restored(order, saved.Image)
		next.Alloc.Epoch += uint32(delay)
		s := b.launch(next)
		time.Sleep(time.Duration(delay) * 40 * time.Millisecond)
		criu := criuOf(s.pid())
		must(t, unix.Kill(s.pid(), unix.SIGKILL))
		eventually(t, "its lock is free", func() bool { return !s.Alive() })
		_, err := s.Recover(context.Background())
		must(t, err)
		s.checkNothingLeft()
		eventually(t, "criu is gone", func() bool { return criu == 0 || !isCRIU(criu) })
		size := len(b.output())
		time.Sleep(50 * time.Millisecond)
		if len(b.output()) != size {
			t.Fatalf("killed after %d ms: something writes on", delay*40)
		}
	}
}

// TestCriuIsKilled: the job runs on, or is over by the fault of the node: a dump
// that is broken off may leave a process in a state in which it cannot continue.
func TestCriuIsKilled(t *testing.T) {
	b := newSavingBed(t)
	killed := 0
	for tries := 0; killed < 3 && tries < 12; tries++ {
		order := b.counter()
		order.Spec.StandardError = os.DevNull // there the shell names processes of its own that died of it
		s := b.launch(order)
		s.ready()
		b.countsOn()
		_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Then: freeze})
		must(t, err)
		s.dumping(2)
		if pid := criuOf(s.pid()); pid != 0 {
			_ = unix.Kill(pid, unix.SIGKILL)
			killed++
		}
		saved := s.saved(1)
		if saved.Image == nil {
			t.Logf("not saved: %s", saved.Error)
		}
		at := b.counts()
		if saved.Frozen {
			_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Then: resume})
			must(t, err)
		}
		eventually(t, "the job runs on, or is over", func() bool {
			_, err := s.Result()
			return err == nil || b.counts() > at+2
		})
		if result, err := s.Result(); err == nil && result.Cause != pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
			t.Errorf("ended %v", result)
		}
		_, _ = s.client().End(context.Background(), endOrder(s))
		s.wait()
		must(t, os.Remove(filepath.Join(b.home, "out")))
	}
	if killed == 0 {
		t.Error("CRIU was never met at work")
	}
}

// TestCancelledInMidSave: the job ends as ever, at once or with its grace.
func TestCancelledInMidSave(t *testing.T) {
	b := newSavingBed(t)
	for _, grace := range []uint32{0, 20} {
		order := b.order("trap 'echo term; exit 3' TERM; echo up; while :; do sleep 0.01; done")
		s := b.launch(order)
		s.ready()
		eventually(t, "it is up", func() bool { return strings.Contains(b.output(), "up") })
		_, err := s.client().Save(context.Background(), &pb.SaveAlloc{Alloc: s.order.Alloc, Number: 1, Then: freeze})
		must(t, err)
		s.dumping(0)
		_, err = s.client().End(context.Background(), &pb.EndAlloc{Alloc: s.order.Alloc, GraceS: grace})
		must(t, err)
		if result := s.wait(); result.Cause != pb.EndCause_END_CAUSE_CANCELLED {
			t.Errorf("grace %d: ended %v", grace, result)
		}
		must(t, os.Remove(filepath.Join(b.home, "out")))
	}
}

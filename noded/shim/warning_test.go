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

	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// trapping notes each signal that the script itself gets, and continues.
const trapping = `exec 2> /dev/null; trap 'echo USR1' USR1; trap 'echo TERM' TERM; echo begun
while ! test -e go; do sleep 0.05; done; exit 85`

func (b *bed) letGo() { must(b.t, os.WriteFile(filepath.Join(b.home, "go"), nil, 0o644)) }

// A job is warned before its time limit, and may save its work and end by
// itself.
func TestWarnedBeforeLimit(t *testing.T) {
	b := newBed(t)
	order := b.order(`trap 'echo saves; exit 85' USR1; sleep 60 & wait; wait`)
	order.TimeLimitS, order.Spec.Signal = 60, "B:USR1@59"
	result, out := b.runOrder(order)
	wantExit(t, result, 85)
	// It is due after a second of the run, which may begin a while before the script does.
	if out != "saves\n" || result.EndMs-result.StartMs < 200 {
		t.Errorf("%q after %d ms", out, result.EndMs-result.StartMs)
	}
}

// A job that has moved since it was warned is not warned again.
func TestWarnedOnceThoughMoved(t *testing.T) {
	for _, row := range []struct {
		order *pb.StartAlloc
		sent  bool
	}{
		{&pb.StartAlloc{TimeLimitS: 59, AsSaved: true}, true},
		{&pb.StartAlloc{TimeLimitS: 60, AsSaved: true}, false},
		{&pb.StartAlloc{TimeLimitS: 59}, false},
	} {
		w, err := newWarning("USR1@60")
		must(t, err)
		w.resume(row.order)
		w.follow(row.order.TimeLimitS)
		if w.sent != row.sent || (w.length == 0) != row.sent {
			t.Errorf("%v: sent %v, after %v", row.order, w.sent, w.length)
		}
	}
}

// A limit that is shorter than the time before it has the job warned at once,
// and one that is changed is warned again only when it comes near again.
func TestWarningFollowsLimit(t *testing.T) {
	w, err := newWarning("USR1@60")
	must(t, err)
	defer w.pause()
	w.ran = 100 * time.Second
	for _, step := range []struct {
		limitS uint32
		sent   bool // before
		want   time.Duration
		still  bool // sent
	}{
		{3600, false, 3540 * time.Second, false},
		{spec.Unlimited, false, 0, false},
		{30, false, time.Nanosecond, false},
		{30, true, time.Nanosecond, true},
		{150, true, time.Nanosecond, true},     // it was due 10 s ago
		{1000, true, 940 * time.Second, false}, // it comes again
		{1000, false, 940 * time.Second, false},
	} {
		w.sent = step.sent
		if w.follow(step.limitS); w.length != step.want || w.sent != step.still {
			t.Errorf("%+v: after %v, sent %t", step, w.length, w.sent)
		}
	}
	none, err := newWarning("")
	must(t, err)
	never, err := newWarning("USR1@0")
	must(t, err)
	for _, w := range []*warning{none, never} {
		if w.follow(60); w.length != 0 {
			t.Errorf("%+v is sent", w)
		}
	}
	if _, err := newWarning("NOWHERE"); err == nil {
		t.Error("a signal that there is not is taken")
	}
}

// Without B: the script itself is not signalled.
func TestWarningIsForSteps(t *testing.T) {
	b := newBed(t)
	order := b.order(trapping)
	order.TimeLimitS, order.Spec.Signal = 3600, "USR1@3600"
	s := b.launch(order)
	eventually(t, "the warning is tried", func() bool {
		log, _ := os.ReadFile(s.dir.Path(bundle.LogFile))
		return strings.Contains(string(log), "reached nobody")
	})
	b.letGo()
	wantExit(t, s.wait(), 85)
	if b.output() != "begun\n" {
		t.Errorf("%q", b.output())
	}
}

// A job that is to make room is warned with the signal that it asked for. Where
// that reaches nobody, or was not asked for, it gets TERM.
func TestWarnedOfPreemption(t *testing.T) {
	for signal, want := range map[string]string{"B:USR1@0": "begun\nUSR1\n", "USR1@0": "begun\nTERM\n", "": "begun\nTERM\n"} {
		b := newBed(t)
		order := b.order(trapping)
		order.Spec.Signal = signal
		s := b.launch(order)
		eventually(t, "the script begins", func() bool { return b.output() == "begun\n" })
		_, err := s.client().End(context.Background(), &pb.EndAlloc{Alloc: order.Alloc, GraceS: 60, TermAgainS: 50})
		must(t, err)
		eventually(t, "it is warned: "+want, func() bool { return b.output() == want })
		b.letGo()
		wantEnd(t, s.wait(), pb.EndCause_END_CAUSE_CANCELLED, 85, 0)
		if b.output() != want {
			t.Errorf("%q: %q, want %q", signal, b.output(), want)
		}
	}
}

// A job that saves itself finds a directory of its own on the host, which goes
// again if nothing was saved.
func TestCheckpointDirectory(t *testing.T) {
	b := newBed(t)
	save := `echo $GLEANER_CHECKPOINT_DIR; touch "$GLEANER_CHECKPOINT_DIR"/$1 || exit 1`
	order := b.order("set -- state\n" + save)
	order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: spec.CheckpointApp}
	order.Spec.Environment = append(order.Spec.Environment, "GLEANER_CHECKPOINT_DIR=/of/another/job")
	dir := filepath.Join(b.home, ".gleaner", fmt.Sprint(order.Alloc.Job))
	result, out := b.runOrder(order)
	wantExit(t, result, 0)
	var stat unix.Stat_t
	must(t, unix.Stat(filepath.Join(dir, "state"), &stat))
	if out != dir+"\n" || stat.Uid != testUID {
		t.Errorf("%q, of %d; want %s", out, stat.Uid, dir)
	}

	order = b.order("test -d $GLEANER_CHECKPOINT_DIR")
	order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: spec.CheckpointApp}
	result, _ = b.runOrder(order)
	wantExit(t, result, 0)
	if _, err := os.Lstat(filepath.Join(b.home, ".gleaner", fmt.Sprint(order.Alloc.Job))); !os.IsNotExist(err) {
		t.Errorf("an empty one is left: %v", err)
	}

	// Elsewhere on the host's own file system, where a job sees a copy.
	elsewhere := filepath.Join(b.dir, "scratch")
	must(t, os.Mkdir(elsewhere, 0o700))
	must(t, os.Chown(elsewhere, testUID, testGID))
	order = b.order("set -- there\n" + save)
	order.Spec.Checkpoint = &pb.CheckpointPolicy{Directory: elsewhere + "/%x/%j"}
	result, _ = b.runOrder(order)
	wantExit(t, result, 0)
	must(t, unix.Stat(filepath.Join(elsewhere, "test", fmt.Sprint(order.Alloc.Job), "there"), &stat))

	order = b.order(`echo "[$GLEANER_CHECKPOINT_DIR]"`)
	if _, out = b.runOrder(order); out != "[]\n" {
		t.Errorf("a job that does not save itself: %q", out)
	}
	order = b.order("true")
	order.Spec.Checkpoint = &pb.CheckpointPolicy{Mode: spec.CheckpointApp, Directory: "/usr/mine"}
	if result, _ = b.runOrder(order); result.Cause != pb.EndCause_END_CAUSE_BAD_REQUEST || !strings.Contains(result.Detail, "--checkpoint-dir") || !strings.Contains(result.Detail, "Permission denied") {
		t.Errorf("%v %q", result.Cause, result.Detail)
	}
}

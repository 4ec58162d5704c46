package leader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// site is a leader with a clock of the test's, node n1, and on it a job under
// fence and one under run-on.
type site struct {
	t            *testing.T
	l            *Leader
	b            *book
	now, since   time.Time
	fenced, free uint32
	link         *session.Session
}

const siteLease, siteMargin = 30 * time.Second, 10 * time.Second

func newSite(t *testing.T) *site {
	t.Helper()
	l, b := begin(t)
	w := &site{t: t, l: l, b: b, now: time.Now()}
	l.sessions.SetClock(func() time.Time { return w.now })
	w.policy(siteLease)
	w.lead(5)
	w.link = connect(t, l, b, "n1")
	w.fenced, w.free = w.submit("guests"), w.submit("main")
	plan(t, l)
	if job, _ := b.View().Job(w.fenced); job.Phase != state.Running || !job.Run.Fence {
		t.Fatalf("the guest is %v %+v", job.Phase, job.Run)
	}
	return w
}

func (w *site) policy(lease time.Duration) {
	w.b.must(w.t, state.ApplyPolicy{Policy: *policy.FromMessage(&pb.Policy{
		LeaseS: uint32(lease.Seconds()), LeaseMarginS: uint32(siteMargin.Seconds()),
		Partitions: []*pb.Partition{
			{Name: "main", Nodes: "ALL", Up: true, IsDefault: true},
			{Name: "guests", Nodes: "ALL", Up: true, LeaseAction: policy.LeaseFence},
		}})})
}

// lead begins a leadership.
func (w *site) lead(term uint64) {
	w.t.Helper()
	w.l.SetTerm(term)
	w.since = w.now
	if err := w.l.OpenTerm(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *site) submit(partition string) uint32 {
	w.t.Helper()
	command, err := state.SubmitFromSpec(&pb.JobSpec{Name: "j", Script: []byte("#!/bin/sh\n"), WorkDirectory: "/", MemoryPerNodeBytes: 1 << 20,
		Requeue: true, Partitions: []string{partition}}, &pb.Identity{Uid: 1000, Gid: 1000, User: "ann"})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.b.must(w.t, command).JobID
}

// pass lets time go by, looking at the leases as the loop does.
func (w *site) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(time.Second, end.Sub(w.now)))
		w.l.CheckLeases(context.Background(), w.now, w.since)
		w.l.hooks.Wait()
	}
}

func (w *site) phase(job uint32) state.Phase {
	found, _ := w.b.View().Job(job)
	return found.Phase
}

func (w *site) want(what string, fenced, free state.Phase) {
	w.t.Helper()
	if a, b := w.phase(w.fenced), w.phase(w.free); a != fenced || b != free {
		w.t.Fatalf("%s: the job under fence is %v, want %v; the one under run-on %v, want %v", what, a, fenced, b, free)
	}
}

func (w *site) grant() bool { return w.l.sessions.Grant("n1", w.now, siteLease) }

// TestFenceIsReleasedAfterLeaseAndMargin, counted from the last grant, and
// run-on never.
func TestFenceIsReleasedAfterLeaseAndMargin(t *testing.T) {
	w := newSite(t)
	w.pass(20 * time.Second)
	w.link.Touch(w.now)
	w.grant()
	w.pass(siteLease + siteMargin - time.Second)
	if node, _ := w.b.View().Node("n1"); !node.NotResponding {
		t.Fatal("the node is not found silent")
	}
	w.want("before the margin", state.Running, state.Running)
	if said := w.l.Fencing("n1"); !strings.Contains(said, "over in 1s") {
		t.Errorf("said %q", said)
	}
	w.pass(3 * time.Second)
	w.want("after it", state.Waiting, state.Running)
	if len(w.l.sessions.Ending()) != 0 || !w.grant() {
		t.Error("the node cannot have a lease any more")
	}
	if allocs := w.b.View().AllocsOn("n1"); len(allocs) != 1 || allocs[0].Job != w.free {
		t.Errorf("its allocations are %v", allocs)
	}
	w.pass(time.Hour)
	w.want("much later", state.Waiting, state.Running)
}

// TestNewLeaderWaits: it cannot know what the former granted last.
func TestNewLeaderWaits(t *testing.T) {
	w := newSite(t)
	w.b.must(t, state.NodesLost{Names: []string{"n1"}})
	w.now = w.now.Add(time.Hour)
	w.l.sessions.CloseAll()
	w.lead(6)
	w.since = w.now.Add(-time.Hour) // whatever the loop says
	w.pass(siteLease + siteMargin - time.Second)
	w.want("before a lease and a margin", state.Running, state.Running)
	w.pass(2 * time.Second)
	w.want("after them", state.Waiting, state.Running)
}

// TestShorterLease: those of the former policy may still be in force, for the
// next leader too.
func TestShorterLease(t *testing.T) {
	w := newSite(t)
	w.policy(time.Second)
	w.b.must(t, state.NodesLost{Names: []string{"n1"}})
	w.lead(6)
	w.pass(siteLease + siteMargin - time.Second)
	w.want("while a lease of the former policy may last", state.Running, state.Running)
	if longest := w.b.View().LongestLeaseS(); longest != uint32(siteLease.Seconds()) {
		t.Errorf("the longest lease is %d s", longest)
	}
	w.pass(10 * time.Second)
	w.want("after it", state.Waiting, state.Running)
	if longest := w.b.View().LongestLeaseS(); longest != 1 {
		t.Errorf("the longest lease is still %d s", longest)
	}
}

// TestFormerLeaderEndsNothing: its count says nothing about what a later one
// granted.
func TestFormerLeaderEndsNothing(t *testing.T) {
	w := newSite(t)
	w.b.must(t, state.NodesLost{Names: []string{"n1"}})
	w.b.must(t, state.Barrier{Term: 6})
	w.pass(time.Hour)
	w.want("by a leader of term 5 in term 6", state.Running, state.Running)
}

// TestNothingIsGrantedWhileLeasesEnd, and not while the outcome is not known.
func TestNothingIsGrantedWhileLeasesEnd(t *testing.T) {
	w := newSite(t)
	w.pass(siteLease + 2*time.Second)
	w.b.mu.Lock()
	w.b.broken = true
	w.b.mu.Unlock()
	w.pass(siteMargin)
	w.want("while nothing can be committed", state.Running, state.Running)
	if w.grant() {
		t.Error("a lease was granted while the outcome was not known")
	}
	if _, err := w.l.sessions.Admit(&pb.Register{Node: "n1", Instance: "i"}, siteLease); !errors.Is(err, session.ErrEnding) {
		t.Errorf("the node was let in: %v", err)
	}
	w.b.mu.Lock()
	w.b.broken = false
	w.b.mu.Unlock()
	w.pass(time.Second)
	w.want("once it can", state.Waiting, state.Running)
	if !w.grant() {
		t.Error("the node gets no lease any more")
	}
}

// TestEnteringNodeKeepsItsLeases: its registration is about to be answered
// with one.
func TestEnteringNodeKeepsItsLeases(t *testing.T) {
	w := newSite(t)
	w.l.sessions.Disconnect(w.link)
	w.pass(siteLease + 2*time.Second)
	done, err := w.l.sessions.Admit(&pb.Register{Node: "n1", Instance: "i"}, siteLease)
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	w.want("while it registers", state.Running, state.Running)
	w.grant()
	done()
	w.pass(siteLease)
	w.want("with a new lease", state.Running, state.Running)
}

// TestFenceCommand: it is run, killed when it hangs, tried again, and when it
// succeeds the jobs under run-on are released too.
func TestFenceCommand(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "off")
	text := fmt.Sprintf(`#!/bin/sh
echo "$# $1 $2 $GLEANER_NODE $HOME" >> %[1]s/calls
case $(wc -l < %[1]s/calls) in
1) echo "no answer from the power strip"; exit 3 ;;
2) sleep 1000 ;;
esac
`, dir)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	limit := hookLimit
	t.Cleanup(func() { hookLimit = limit })
	w := newSite(t)
	called := func() int {
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		return strings.Count(string(calls), "\n")
	}
	w.l.power.command = []string{script, "--off"}
	w.pass(siteLease + siteMargin - time.Second)
	if _, err := os.Stat(filepath.Join(dir, "calls")); err == nil {
		t.Error("it was run before the leases were over")
	}
	w.pass(2 * time.Second)
	if said := w.l.Fencing("n1"); !strings.Contains(said, "no answer from the power strip") {
		t.Errorf("after it failed: %q", said)
	}
	w.want("after it failed", state.Waiting, state.Running)
	hookLimit = 500 * time.Millisecond
	for i := 0; called() < 2 && i < 400; i++ { // one that was killed before it wrote its line comes again
		w.pass(time.Second)
	}
	w.want("while it hangs", state.Waiting, state.Running)
	hookLimit = limit
	for range 40 {
		w.pass(time.Second)
	}
	w.want("after it succeeded", state.Waiting, state.Waiting)
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || string(calls) != strings.Repeat("2 --off n1 n1 \n", 3) {
		t.Errorf("called with %q, %v", calls, err)
	}
	if node, _ := w.b.View().Node("n1"); !node.Down || !strings.Contains(node.Reason, "fence_command") {
		t.Errorf("the node is %+v", node)
	}
}

// TestFenceCommandIsTheLeadersOnly: one that cannot commit runs nothing.
func TestFenceCommandIsTheLeadersOnly(t *testing.T) {
	w := newSite(t)
	calls := filepath.Join(t.TempDir(), "calls")
	w.l.power.command = []string{"/usr/bin/touch", calls}
	w.l.power.wanted("n1")
	w.b.must(t, state.NodesLost{Names: []string{"n1"}})
	w.b.broken = true
	w.l.switchOff(context.Background(), w.b.View(), w.now)
	w.l.hooks.Wait()
	if _, err := os.Stat(calls); err == nil {
		t.Error("it was run")
	}
}

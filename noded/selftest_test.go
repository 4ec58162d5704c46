package noded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/shim/client"
	"github.com/gleaner-hpc/gleaner/noded/trial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (f *fakeShims) setFaults(launch, try error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.launchErr, f.tryErr = launch, try
}

func (f *fakeShims) tryCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

// What one job cannot do is no matter of the node's, if a job of nobody's can:
// it stays in, however many fail, and does not test itself for each of them.
func TestFaultsOfJobsLeaveTheNodeIn(t *testing.T) {
	_, s, shims, n := setUp(t)
	shims.setFaults(errors.New("mount /odd: file name too long"), nil)
	for job := range uint32(20) {
		s.start(startOrder(100+job, 1))
		if got := s.ended(); got.Cause != pb.EndCause_END_CAUSE_NODE_FAULT {
			t.Fatalf("ended: %v", got)
		}
	}
	if tries := shims.tryCount(); tries == 0 {
		t.Error("the node did not test itself")
	} else if ended := n.agent.machine.selfTest.ended; time.Since(ended) < selfTestPause && tries > 1 {
		t.Errorf("the node tested itself %d times within seconds", tries)
	}
	if trouble := n.agent.machine.trouble(); trouble != "" {
		t.Errorf("the node took itself out: %s", trouble)
	}
}

// A node that cannot start a job of nobody's says so before it gives the job
// back, and takes jobs again once it can. What is meanwhile said of its disk
// takes nothing back.
func TestBrokenNodeTakesItselfOut(t *testing.T) {
	before := selfTestEvery
	selfTestEvery = 10 * time.Millisecond
	t.Cleanup(func() { selfTestEvery = before })
	controller, s, shims, n := setUp(t)
	shims.setFaults(errors.New("cannot make a control group"), errors.New("cannot make a control group"))
	s.start(startOrder(12, 1))
	again := controller.next()
	if got := again.register.Inventory.Trouble; !strings.Contains(got, "self-test failed") || !strings.Contains(got, "control group") {
		t.Errorf("registered with trouble %q", got)
	}
	for m := range s.received {
		if m.GetAllocEnded() != nil {
			t.Errorf("the session before was told %v", m)
		}
	}
	if got := again.ended(); got.Cause != pb.EndCause_END_CAUSE_NODE_FAULT {
		t.Errorf("ended: %v", got)
	}
	n.agent.checkRoom()
	if n.agent.machine.trouble() == "" {
		t.Error("a look at the disk has cured it")
	}
	shims.setFaults(nil, nil)
	if got := controller.next().register.Inventory.Trouble; got != "" {
		t.Errorf("registered with trouble %q", got)
	}
}

// A test that the end of the daemon cuts off says nothing about the node.
func TestStoppedSelfTestSaysNothing(t *testing.T) {
	_, _, shims, n := setUp(t)
	shims.setFaults(nil, context.Canceled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.agent.testNode(ctx, true)
	if trouble := n.agent.machine.trouble(); trouble != "" {
		t.Error(trouble)
	}
}

// The real test finds what keeps a job of nobody's from starting, and leaves
// nothing in state_dir, nor a control group.
func TestRealSelfTest(t *testing.T) {
	n := newRealNode(t)
	executable, err := os.Executable()
	n.must(err)
	n.must(client.PrepareStateDir(n.config.StateDir))
	_, err = cgroup.Prepare(n.config.CgroupParent)
	n.must(err)
	broken := filepath.Join(n.directory, "work", "broken")
	n.must(os.WriteFile(broken, []byte("no program\n"), 0o755))
	for _, c := range []struct {
		name   string
		change func(*Config)
		good   bool
	}{
		{"a sound node", func(*Config) {}, true},
		{"a ginit that is no program", func(c *Config) { c.Init = broken }, false},
		{"a directory to bind that is not there", func(c *Config) { c.Bind = []string{n.directory + "/none"} }, false},
		{"a sound node again", func(*Config) {}, true},
	} {
		config := n.config
		c.change(&config)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := (&shims{config: config, executable: executable}).Try(ctx)
		cancel()
		t.Logf("%s: %v", c.name, err)
		if (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(n.config.StateDir, trial.DirectoryPrefix+"*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if groups, err := cgroup.List(n.config.CgroupParent); err != nil || len(groups) > 0 {
		t.Errorf("left over: groups %v, %v", groups, err)
	}
}

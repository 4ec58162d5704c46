package noded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	"github.com/gleaner-hpc/gleaner/noded/trial"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// selfTestDeadline bounds one test. A node on which a job of nobody's takes
	// longer takes no others either.
	selfTestDeadline = 90 * time.Second
	// selfTestPause is how long the outcome of a test is valid: a user whose jobs
	// fail by the hundred does not make the node test itself by the hundred.
	selfTestPause = 10 * time.Second
)

// selfTestEvery is how often a node that failed its test is tested again. It is a
// variable because tests cannot wait that long.
var selfTestEvery = 30 * time.Second

// selfTest is what the node finds out about itself when a job could not start
// here. Whoever can make a launch fail must not be able to take the node from
// others: only what the node sees with a job of nobody's takes it out, until a
// later test is content.
type selfTest struct {
	turn *semaphore.Weighted // one test at a time

	mu      sync.Mutex
	ended   time.Time // the last one; zero = none was made
	trouble string    // what it found; "" = jobs can start
}

func newSelfTest() *selfTest { return &selfTest{turn: semaphore.NewWeighted(1)} }

// known is what the last test found.
func (t *selfTest) known() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trouble
}

// recent says whether the outcome of the last test is still valid.
func (t *selfTest) recent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.ended.IsZero() && time.Since(t.ended) < selfTestPause
}

// note records an outcome, and answers whether it is news.
func (t *selfTest) note(trouble string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.trouble
	t.ended, t.trouble = time.Now(), trouble
	return before != trouble
}

// trouble is why no job can be started on this node now; "" = one can.
func (m *machine) trouble() string {
	if trouble := m.room.known(); trouble != "" {
		return trouble
	}
	return m.selfTest.known()
}

// afterFault looks, before the end of an allocation is told that is said to be the
// node's fault, whether it is. What it finds is told first: otherwise the job
// would come straight back. A GPU that failed is found here too, so that it is
// given to nobody.
func (a *agent) afterFault(ctx context.Context, p *alloc, result *pb.AllocEnded) {
	a.mu.Lock()
	cause := result.Cause
	if p.LaunchFailed != nil && cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		cause = p.LaunchFailed.Cause
	}
	ran := p.Ready
	a.mu.Unlock()
	if cause != pb.EndCause_END_CAUSE_NODE_FAULT || ran {
		return
	}
	a.testNode(ctx, false)
	a.checkInventory()
}

// testNode runs the self-test, after one that runs already. Unless a new one is due in
// any case, an outcome that is seconds old is valid.
func (a *agent) testNode(ctx context.Context, due bool) {
	t := a.machine.selfTest
	if t.turn.Acquire(ctx, 1) != nil {
		return
	}
	defer t.turn.Release(1)
	if !due && t.recent() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, selfTestDeadline)
	defer cancel()
	err := a.supervisors.Try(limited)
	if ctx.Err() != nil {
		return // the daemon stops, which is no fault of the node's
	}
	trouble := ""
	if err != nil {
		trouble = registry.Words("the self-test failed, so no job is started: " + err.Error())
	}
	if !t.note(trouble) {
		return
	}
	if trouble != "" {
		a.log.Error("no job is started here until this is mended: gdoctor says more; the node tests itself again every now and then", "reason", trouble)
	} else {
		a.log.Info("jobs are started here again: the self-test passed")
	}
	a.tellTrouble()
}

// tendSelfTest tests a node again that failed, until it is mended.
func (a *agent) tendSelfTest(ctx context.Context) {
	every(ctx, selfTestEvery, func() {
		if a.machine.selfTest.known() != "" {
			a.testNode(ctx, true)
		}
	})
}

// tellTrouble has the node register again when what keeps jobs from starting
// has changed. Whatever is sent afterwards comes after that.
func (a *agent) tellTrouble() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session != nil && a.session.inventory.GetTrouble() != a.machine.trouble() {
		a.session.end(errInventoryChanged)
		a.session = nil
	}
}

// Try runs a job of nobody's beside those of users, in a directory and a group
// that are removed with it.
func (s *shims) Try(ctx context.Context) (err error) {
	directory, err := os.MkdirTemp(s.config.StateDir, trial.DirectoryPrefix)
	if err != nil {
		return fmt.Errorf("make a directory in state_dir: %w", err)
	}
	defer func() {
		if err = errors.Join(err, remove.Discard(directory)); err != nil {
			// The same fault has the same words: the node registers once for it.
			err = errors.New(strings.ReplaceAll(err.Error(), directory, filepath.Join(s.config.StateDir, trial.DirectoryPrefix+"*")))
		}
	}()
	ended, err := trial.Run(ctx, trial.Setup{
		Executable: s.executable, Directory: directory, Group: path.Join(s.config.CgroupParent, "self-test"),
		Node: s.config.Name, Init: s.config.Init, Binds: s.config.Bind, Hide: s.config.Hide, TmpUnbounded: s.config.TmpUnbounded,
	})
	if err != nil {
		return err
	}
	return trial.Judge(ended)
}

package raftmode

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/registry"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// truth is which runs of a job there are on all nodes.
type truth struct {
	mu       sync.Mutex
	running  map[uint32]run // by job: whose processes run now
	launched map[registry.Key]bool
	frozen   int // allocations, at the end of their lease
	wrong    []string
	waitOf   func(name string) wait // what a job waits for
}

// run is one of a job, on a node.
type run struct {
	key  registry.Key
	node string
}

func newTruth() *truth {
	return &truth{running: map[uint32]run{}, launched: map[registry.Key]bool{}}
}

func (t *truth) fail(format string, arguments ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf(format, arguments...))
}

// happens checks what happens to an allocation.
func (t *truth) happens(what node.What, s *node.Shim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch what {
	case node.Launched:
		if t.launched[s.Key] {
			t.fail("doubled: run %s is started once more, on %s", s.Key, s.Node.Name)
		}
		t.launched[s.Key] = true
	case node.Runs:
		t.runs(s)
	case node.LeaseEnded:
		t.frozen++
	case node.Rests:
		delete(t.running, s.Key.Job)
	}
}

// runs is asked when the processes of an allocation begin to run, or resume.
func (t *truth) runs(s *node.Shim) {
	if other, is := t.running[s.Key.Job]; is {
		t.fail("doubled: run %s runs on %s while run %s does on %s", s.Key, s.Node.Name, other.key, other.node)
	}
	t.running[s.Key.Job] = run{s.Key, s.Node.Name}
	if s.Began {
		return
	}
	w := t.waitOf(s.Order.GetSpec().GetName())
	if other, is := t.running[w.job]; is && w.job != 0 {
		t.fail("too early: job %d starts while run %s runs, for which it waits", s.Key.Job, other.key)
	}
	if early := time.Until(w.begin); early > 0 {
		t.fail("too early: job %d starts %v before its begin", s.Key.Job, early)
	}
}

// What follows implements node.World, under machine.mu.

// Now is true time.
func (m *machine) Now() time.Duration { return time.Since(m.begun) }

// Rand is the node's chance.
func (m *machine) Rand() *rand.Rand { return m.rng }

// Nodes are those from which images could come.
func (m *machine) Nodes() []*node.Node { return []*node.Node{&m.node} }

// Trace tells what happens.
func (m *machine) Trace(who, format string, arguments ...any) {
	m.c.log.Info(fmt.Sprintf(format, arguments...), "node", who)
}

// Fail notes what must not be.
func (m *machine) Fail(format string, arguments ...any) {
	m.truth.mu.Lock()
	defer m.truth.mu.Unlock()
	m.truth.fail(format, arguments...)
}

// Script is as long as the number of its job says.
func (m *machine) Script(order *pb.StartAlloc) node.Script {
	return node.Script{Work: time.Duration(1+order.GetAlloc().GetJob()%20) * time.Second}
}

// ExitCode is what every script ends with.
func (m *machine) ExitCode(*node.Shim) uint32 { return 0 }

// Happens has what happens to an allocation checked.
func (m *machine) Happens(what node.What, s *node.Shim) { m.truth.happens(what, s) }

// ImageMade notes an image: nothing is saved here.
func (m *machine) ImageMade(i *node.Image) { m.Fail("%s has made %s without CRIU", m.node.Name, i) }

// ImageDeleted notes that an image is deleted.
func (m *machine) ImageDeleted(*node.Image) {}

// CopyDeleted notes that a copy is deleted.
func (m *machine) CopyDeleted(*node.Node, *node.Image) {}

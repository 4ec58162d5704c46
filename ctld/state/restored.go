package state

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Restored makes a state that was taken from a backup, or from what a lost
// majority left, safe to continue from: numbers that were given out after it
// was written must not be given out again. It is applied to the state itself,
// before any peer sees it, and not through the log: there is no moment at which
// the state is in force without it. See DESIGN.md, "After a restore".
type Restored struct {
	TimeMS int64 // Unix milliseconds, now
	// Former is the state that is replaced, nil when nothing is known of it:
	// what it gave out is not given out again, and the nodes that it knows are
	// awaited too.
	Former *View
	// Uncertain: the log that the state comes from may end in commands that
	// were never committed.
	Uncertain bool
}

// What a restore skips, so that no number given out after the state was written
// is given out again.
const (
	// jobJump is the least that job numbers jump ahead. jobsASecond are added
	// for the age of the backup, up to maxAgeJump: an older backup misses more
	// submissions, and a second restore of it, when the first is forgotten,
	// gives out other numbers than the first did.
	jobJump     = 100_000
	jobsASecond = 10
	maxAgeJump  = 5_000_000
	// epochJump is how far epochs jump ahead of all that are known, and one
	// more for each second of the backup's age, up to maxEpochAge, for the same
	// two reasons: no job starts more than once a second for long.
	epochJump   = 1 << 20
	maxEpochAge = 1 << 28
	// lastEpochFloor leaves room to start a job for years.
	lastEpochFloor = math.MaxUint32 - 1<<24
)

// Errors of applying a Restored.
var (
	// ErrNoNumbers is returned when job numbers or epochs are used up.
	ErrNoNumbers = errors.New("no numbers are left to resume from this state")
)

// Recover applies a Restored. An error leaves a state that must not be used.
func (s *State) Recover(r Restored) error {
	if err := s.jumpNumbers(&r); err != nil {
		return err
	}
	s.view = nil
	s.changes = changes{}
	s.timeMS = max(s.timeMS, r.TimeMS)
	for _, node := range slices.Collect(s.Nodes()) {
		if node.Inventory != nil || node.Awaited {
			s.await(node)
		}
	}
	if r.Former != nil {
		s.level = max(s.level, r.Former.level)
		for node := range r.Former.Nodes() {
			if node.Inventory != nil || node.Awaited {
				s.awaitFormer(node.Name)
			}
		}
	}
	s.doubtMoves()
	if r.Uncertain {
		s.doubtStarts()
	}
	return s.Check()
}

// doubtMoves calls all moves off: they may have been decided, or called off,
// after the state was written, and the original may have continued since. So
// the original counts.
func (s *State) doubtMoves() {
	for _, job := range slices.Collect(s.LiveJobs()) {
		if job.Moving() != nil {
			s.putJob(s.calledOff(job, "the controllers were restored from a backup"))
		}
	}
}

// jumpNumbers moves the counters beyond all that may have been given out.
func (s *State) jumpNumbers(r *Restored) error {
	next, floor := uint64(s.nextJob), uint64(s.highestEpoch()) // no sum below overflows
	if r.Former != nil {
		next = max(next, uint64(r.Former.nextJob))
		floor = max(floor, uint64(r.Former.highestEpoch()))
	}
	age := uint64(max(r.TimeMS-s.timeMS, 0)) / 1000
	next += jobJump + min(age*jobsASecond, maxAgeJump)
	floor += epochJump + min(age, maxEpochAge)
	switch {
	case next > bounds.MaxJobID:
		return fmt.Errorf("%w: the next job would be %d, the last is %d", ErrNoNumbers, next, uint32(bounds.MaxJobID))
	case floor > lastEpochFloor:
		return fmt.Errorf("%w: epochs have reached %d", ErrNoNumbers, floor)
	}
	s.nextJob, s.epochFloor = uint32(next), uint32(floor)
	return nil
}

// highestEpoch is the highest that a job of this state has, or had when it was
// restored.
func (t *tables) highestEpoch() uint32 {
	highest := t.epochFloor
	for job := range t.Jobs(0) {
		highest = max(highest, job.Epoch, job.lastEpoch())
	}
	return highest
}

// await keeps everything from starting until the node has registered.
func (s *State) await(old *Node) {
	node := *old
	node.Awaited, node.Strangers = true, nil
	s.putNode(&node)
}

// awaitFormer awaits a node that only the former state knew.
func (s *State) awaitFormer(name string) {
	if _, known := s.nodes.Get(name); !known && s.nodes.Len() < bounds.MaxNodesPerCommand {
		s.await(&Node{Name: name})
	} else if known {
		node, _ := s.nodes.Get(name)
		s.await(node)
	}
}

// doubtStarts ends the runs that had no ready allocation. The order to start is
// sent when the start is committed, so an allocation that was ready proves that
// it was; without one, another leader may have placed the same run elsewhere.
func (s *State) doubtStarts() {
	for _, job := range slices.Collect(s.LiveJobs()) {
		if job.Phase != Running || job.anyReady() {
			continue
		}
		next := *job
		next.decided(&End{
			State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Reason: ReasonNodeDown,
			Detail: "requeued, because its start was not known to be committed when the controllers were recovered",
		})
		s.putJob(&next)
	}
}

// AllocKey names a run of a job.
type AllocKey struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
}

// meetAwaited handles the first registration of an awaited node: the runs it
// speaks of that should not continue there are strangers. Until their ends are
// reported nothing starts anywhere: one of them may be a job that waits here,
// and holds devices that look free.
func (s *State) meetAwaited(node *Node, running []RunningAlloc) {
	node.Awaited, node.Strangers = false, nil
	for _, alloc := range running {
		job, live := s.LiveAlloc(AllocRef{alloc.Job, alloc.Epoch, node.Name})
		if live == nil || job.Phase != Running {
			node.Strangers = append(node.Strangers, AllocKey{alloc.Job, alloc.Epoch})
		}
	}
}

// IsStranger reports whether a report is waited for on the allocation of a run
// that is not known.
func (t *tables) IsStranger(ref AllocRef) bool {
	node, known := t.nodes.Get(ref.Node)
	return known && slices.Contains(node.Strangers, AllocKey{ref.Job, ref.Epoch})
}

// strangerEnded notes that nothing is left of a run that is not known.
func (s *State) strangerEnded(ref AllocRef) {
	if !s.IsStranger(ref) {
		return
	}
	old, _ := s.nodes.Get(ref.Node)
	node := *old
	node.Strangers = slices.DeleteFunc(slices.Clone(old.Strangers), func(key AllocKey) bool {
		return key == AllocKey{ref.Job, ref.Epoch}
	})
	s.putNode(&node)
}

// holdsStarts says that a restore waits for this node.
func (n *Node) holdsStarts() bool { return n.Awaited || len(n.Strangers) > 0 }

// Awaited are the nodes that must register before anything starts after a
// restore, ascending by name; nil when there are none. A node is no longer
// awaited once it has registered and ended the runs that the restored state
// does not know, or was declared fenced.
func (t *tables) Awaited() []string {
	if t.awaited == 0 {
		return nil
	}
	names := make([]string, 0, t.awaited)
	for node := range t.Nodes() {
		if node.holdsStarts() {
			names = append(names, node.Name)
		}
	}
	return names
}

// NextJob is the number that the next job gets.
func (t *tables) NextJob() uint32 { return t.nextJob }

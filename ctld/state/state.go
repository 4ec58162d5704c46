package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// State is the replicated state machine. Make one with New or Restore.
type State struct {
	tables
	shared   shared
	requests requestIndex
	runKinds map[RunKind]*countedRunKind // of the ended runs
	mailsOf  map[uint32]uint32           // uid -> events that wait to be told; nil in a trial
	// counts are of waiting and running jobs, for limits; nil until a command
	// needs them.
	counts  *limitCounts
	changes changes // of the command being applied
	// moved are the jobs that the present command has started or ended, and
	// movedNames the hashes of names under which something changed: see
	// resolve.
	moved      []uint32
	movedNames []uint32
	view       *View // of the state as it is now; nil when it has changed since
}

// New is the state of a cluster before its first command: no jobs, no nodes,
// policy.Default.
func New() *State {
	s := empty()
	s.setPolicy(policy.Default())
	return s
}

func empty() *State {
	return &State{tables: emptyTables(), shared: newShared(), requests: newRequestIndex(), runKinds: map[RunKind]*countedRunKind{}, mailsOf: map[uint32]uint32{}}
}

// Apply applies one committed log entry. Entries must come in the order of the
// log; one whose index is not above the last is ignored, with a zero Result.
// The error is fatal: it wraps ErrUnknownCommand or ErrCorruptCommand, the
// state is as before, and this peer must not continue.
func (s *State) Apply(index uint64, entry []byte) (Result, error) {
	if index <= s.index {
		return Result{}, nil
	}
	envelope, command, err := Decode(entry)
	if err != nil {
		return Result{}, fmt.Errorf("log entry %d: %w", index, err)
	}
	s.view = nil
	s.index = index
	s.timeMS = max(s.timeMS, envelope.TimeMS)
	s.changes = changes{}
	result := Result{Kind: envelope.Kind, Index: index, TimeMS: s.timeMS, RequestID: envelope.RequestID}
	s.forgetRequests()
	if !s.repeat(envelope.RequestID, &result) {
		command.apply(s, &result)
		s.resolve()
		s.remember(envelope.RequestID, &result)
	}
	if s.changes.policy || s.changes.accounts {
		s.counts = nil
	}
	s.changes.report(&result)
	if checkAlways {
		if err := s.Check(); err != nil {
			panic(fmt.Sprintf("ctld/state: after log entry %d (%s): %v", index, envelope.Kind, err))
		}
	}
	return result, nil
}

// View is the state as it is now; later commands do not change it.
func (s *State) View() *View {
	if s.view == nil {
		s.view = &View{tables: s.tables.copy()}
	}
	return s.view
}

// Check says which invariant does not hold; nil when all do. It counts from
// scratch and is for tests and simulation.
func (s *State) Check() error {
	return errors.Join(s.View().Check(), s.checkShared(), s.checkRemembered(), s.checkLimitCounts(), s.checkEndedRuns(), s.outbox.check("history", s.index, bounds.MaxHistoryBytes), s.checkMail())
}

// changes collects what one command touched.
type changes struct {
	jobs   []uint32
	nodes  []string
	purged []uint32
	policy bool
	// accounts: accounts, users, associations or QOS.
	accounts bool
}

func (c *changes) report(result *Result) {
	slices.Sort(c.jobs)
	slices.Sort(c.nodes)
	slices.Sort(c.purged)
	result.ChangedJobs = slices.Compact(c.jobs)
	result.ChangedNodes = slices.Compact(c.nodes)
	result.PurgedJobs = c.purged
	result.PolicyChanged = c.policy
	result.AccountsChanged = c.accounts
}

package state

import (
	"iter"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// This file keeps the outbox of history: runs that are over, until the databases beside
// the controllers have them (package history). A run enters it in the command that ends
// it. TrimHistory takes off the front what the databases have. Nothing waits for them:
// while no database takes anything, the outbox grows to MaxHistoryBytes, and then loses
// its oldest runs, which are counted.

// HistoryRun is one run that is over. A stored one is never changed.
type HistoryRun struct {
	_   struct{} `cbor:",toarray"`
	At  Position
	Run []byte // a pb.PastRun
}

func (r HistoryRun) position() Position { return r.At }
func (r HistoryRun) size() uint64       { return uint64(len(r.Run)) }

// HistoryAfter are the runs behind a position that are not trimmed.
func (t *tables) HistoryAfter(at Position) iter.Seq[HistoryRun] { return t.outbox.after(at) }

// HistoryTrimmed is the position up to which runs are only in the databases.
func (t *tables) HistoryTrimmed() Position { return t.outbox.trimmed }

// HistorySize is how much waits for the databases, and how many runs were given up
// because no database took them.
func (t *tables) HistorySize() (runs int, bytes, lost uint64) {
	return len(t.outbox.records), t.outbox.bytes, t.outbox.lost
}

// noteHistory adds a run that is over. The job is as it was then, with its end.
func (s *State) noteHistory(job *Job) { s.keep(s.pastRun(job)) }

// keep adds a pb.PastRun behind all that are there.
func (s *State) keep(run []byte) {
	s.outbox.add(HistoryRun{At: s.outbox.next(s.index), Run: run})
	s.outbox.bound(bounds.MaxHistoryBytes)
}

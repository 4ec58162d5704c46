package state

import (
	"fmt"
	"iter"
	"slices"
	"sort"
)

// This file keeps the outbox of history: runs that are over, until the databases beside
// the controllers have them (package history). A run enters it in the command that ends
// it, so the two cannot be apart. TrimHistory takes off the front what the databases
// have. Nothing waits for them: while no database takes anything, the outbox grows to
// MaxHistoryBytes, and then loses its oldest runs, which are counted.

// Position is where a run is in the order of ends: the index of the log entry that
// ended it, and its number among those that this entry ended. It never repeats, also
// not after a restore, which continues above all former indices.
type Position uint64

// positionBits are for the number within an entry: an entry names MaxTargets jobs at most.
const positionBits = 20

// EndOf is behind every run that entries up to this index ended.
func EndOf(index uint64) Position { return Position((index+1)<<positionBits - 1) }

// Index is that of the log entry.
func (p Position) Index() uint64 { return uint64(p) >> positionBits }

// HistoryRun is one run that is over. A stored one is never changed.
type HistoryRun struct {
	_   struct{} `cbor:",toarray"`
	At  Position
	Run []byte // a pb.PastRun
}

// outbox are the runs that are not trimmed, in the order of their positions. Only the
// State adds at the end and removes from the front, as with the remembered requests.
type outbox struct {
	runs  []HistoryRun
	bytes uint64 // of all runs
	// trimmed is the position up to which runs were removed, whether a database had
	// them or not, and lost how many of them were removed to keep the bound.
	trimmed Position
	lost    uint64
}

// HistoryAfter are the runs behind a position that are not trimmed.
func (t *tables) HistoryAfter(at Position) iter.Seq[*HistoryRun] {
	return func(yield func(*HistoryRun) bool) {
		for i := t.outbox.firstAfter(at); i < len(t.outbox.runs); i++ {
			if !yield(&t.outbox.runs[i]) {
				return
			}
		}
	}
}

// HistoryTrimmed is the position up to which runs are only in the databases.
func (t *tables) HistoryTrimmed() Position { return t.outbox.trimmed }

// HistorySize is how much waits for the databases, and how many runs were given up
// because no database took them.
func (t *tables) HistorySize() (runs int, bytes, lost uint64) {
	return len(t.outbox.runs), t.outbox.bytes, t.outbox.lost
}

func (o *outbox) firstAfter(at Position) int {
	return sort.Search(len(o.runs), func(i int) bool { return o.runs[i].At > at })
}

// noteHistory adds a run that is over. The job is as it was then, with its end.
func (s *State) noteHistory(job *Job) { s.keep(s.pastRun(job)) }

// keep adds a pb.PastRun behind all that are there.
func (s *State) keep(run []byte) {
	at := max(Position(s.index<<positionBits), s.outbox.trimmed+1)
	if last := len(s.outbox.runs) - 1; last >= 0 && s.outbox.runs[last].At >= at {
		at = s.outbox.runs[last].At + 1
	}
	s.addHistory(HistoryRun{At: at, Run: run})
	if s.outbox.bytes > MaxHistoryBytes {
		s.boundHistory()
	}
}

func (s *State) addHistory(run HistoryRun) {
	s.outbox.runs = append(s.outbox.runs, run)
	s.outbox.bytes += uint64(len(run.Run))
}

// boundHistory gives up the oldest runs, some more than it must, so that it need not be
// done again at once.
func (s *State) boundHistory() {
	gone := 0
	for bytes := s.outbox.bytes; bytes > MaxHistoryBytes/16*15; gone++ {
		bytes -= uint64(len(s.outbox.runs[gone].Run))
	}
	s.outbox.lost += uint64(gone)
	s.dropHistory(gone)
}

// dropHistory removes runs from the front.
func (s *State) dropHistory(count int) {
	if count == 0 {
		return
	}
	for i := range s.outbox.runs[:count] {
		s.outbox.bytes -= uint64(len(s.outbox.runs[i].Run))
	}
	s.outbox.trimmed = max(s.outbox.trimmed, s.outbox.runs[count-1].At)
	// What is cut off is kept in memory by what remains of the slice, but not by a copy.
	s.outbox.runs = slices.Clone(s.outbox.runs[count:])
}

// historyRecord are some runs in a row, as they are persisted.
type historyRecord struct {
	Trimmed Position     `cbor:"1,keyasint,omitempty"`
	Lost    uint64       `cbor:"2,keyasint,omitempty"`
	Runs    []HistoryRun `cbor:"3,keyasint,omitempty"`
}

// historyPerFrame is how many runs are persisted together.
const historyPerFrame = 512

// persistHistory calls write with what the outbox has; not at all if nothing was ever in it.
func (t *tables) persistHistory(write func(*historyRecord)) {
	rest := t.outbox.runs
	if len(rest) == 0 && t.outbox.trimmed == 0 {
		return
	}
	record := historyRecord{Trimmed: t.outbox.trimmed, Lost: t.outbox.lost}
	for {
		record.Runs = rest[:min(len(rest), historyPerFrame)]
		rest = rest[len(record.Runs):]
		write(&record)
		if len(rest) == 0 {
			return
		}
		record = historyRecord{}
	}
}

func (s *State) restoreHistory(record *historyRecord) error {
	s.outbox.trimmed = max(s.outbox.trimmed, record.Trimmed)
	s.outbox.lost += record.Lost
	for _, run := range record.Runs {
		last := s.outbox.trimmed
		if n := len(s.outbox.runs); n > 0 {
			last = s.outbox.runs[n-1].At
		}
		if run.At <= last || run.At > EndOf(s.index) {
			return fmt.Errorf("a run is at position %d, after %d and in a state of index %d", run.At, last, s.index)
		}
		s.addHistory(run)
	}
	return nil
}

// checkHistory says what is wrong with the outbox. Like checkEndedRuns, it does not look
// at all of a long one each time.
func (s *State) checkHistory() error {
	if s.index%64 != 0 && len(s.outbox.runs) > 64 {
		return nil
	}
	bytes, last := uint64(0), s.outbox.trimmed
	for i := range s.outbox.runs {
		run := &s.outbox.runs[i]
		if run.At <= last || run.At > EndOf(s.index) {
			return fmt.Errorf("history: a run is at position %d after %d, and the index is %d", run.At, last, s.index)
		}
		bytes, last = bytes+uint64(len(run.Run)), run.At
	}
	if bytes != s.outbox.bytes || bytes > MaxHistoryBytes {
		return fmt.Errorf("history: %d bytes wait, and %d are counted", bytes, s.outbox.bytes)
	}
	return nil
}

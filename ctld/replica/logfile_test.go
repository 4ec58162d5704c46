package replica

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

// entriesOf are entries of a term that tell their index.
func entriesOf(term, first, last uint64) (list []*raft.Log) {
	for index := first; index <= last; index++ {
		list = append(list, &raft.Log{Index: index, Term: term, Data: fmt.Appendf(nil, "%d in %d", index, term)})
	}
	return list
}

func mustHold(t *testing.T, logs *logFile, term, first, last uint64) {
	t.Helper()
	if s := logs.current(); s.First != first || s.Last != last || s.Cutting {
		t.Fatalf("seal %+v, want entries %d to %d", s, first, last)
	}
	for index := first; index <= last; index++ {
		var entry raft.Log
		if err := logs.GetLog(index, &entry); err != nil || entry.Index != index || entry.Term != term || string(entry.Data) != fmt.Sprintf("%d in %d", index, term) {
			t.Fatalf("entry %d: %+v, %v", index, entry, err)
		}
	}
	for _, index := range []uint64{0, first - 1, last + 1, sealIndex} {
		if err := logs.GetLog(index, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
}

// newLogFile makes a log of entries 1 to 100 of term 1.
func newLogFile(t *testing.T) (path string, logs *logFile) {
	t.Helper()
	path = filepath.Join(t.TempDir(), logName)
	if err := createLogFile(path); err != nil {
		t.Fatal(err)
	}
	logs = reopen(t, path)
	if err := errors.Join(logs.SetUint64([]byte("CurrentTerm"), 9), logs.StoreLogs(entriesOf(1, 1, 100))); err != nil {
		t.Fatal(err)
	}
	return path, logs
}

// reopen checks the file as a start does, and opens it.
func reopen(t *testing.T, path string) *logFile {
	t.Helper()
	if err := verifyLogFile(path, 1000); err != nil {
		t.Fatal(err)
	}
	logs, err := openLogFile(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	return logs
}

// Entries are taken away from either end, or all, and others follow.
func TestDeleteRange(t *testing.T) {
	for name, c := range map[string]struct {
		low, high, next, first, last uint64
	}{
		"the first":         {1, 40, 101, 41, 110},
		"the last":          {41, 100, 41, 1, 50},
		"all, for new ones": {1, 100, 1, 1, 10},
		"all, for later":    {0, sealIndex, 500, 500, 510},
		"none":              {101, 200, 101, 1, 110},
	} {
		t.Run(name, func(t *testing.T) {
			path, logs := newLogFile(t)
			if err := logs.DeleteRange(c.low, c.high); err != nil {
				t.Fatal(err)
			}
			if err := logs.StoreLogs(entriesOf(1, c.next, c.last)); err != nil {
				t.Fatal(err)
			}
			mustHold(t, logs, 1, c.first, c.last)
			if err := logs.Close(); err != nil {
				t.Fatal(err)
			}
			mustHold(t, reopen(t, path), 1, c.first, c.last)
		})
	}
	_, logs := newLogFile(t)
	if err := logs.DeleteRange(20, 30); err == nil {
		t.Error("a hole was cut")
	}
	if err := logs.StoreLogs(entriesOf(1, 102, 103)); err == nil {
		t.Error("a gap was left")
	}
}

// What a kill leaves between two transactions is no damage, and is ended.
func TestInterruptedCut(t *testing.T) {
	for _, cut := range []struct{ low, high uint64 }{{1, 40}, {41, 100}} {
		for name, interrupt := range map[string]func(*logFile) error{
			"before": func(*logFile) error { return nil },
			"after":  func(logs *logFile) error { return logs.remove(cut.low, cut.high) },
		} {
			path, logs := newLogFile(t)
			next := logs.current()
			if err := logs.shorten(&next, cut.low, cut.high); err != nil {
				t.Fatal(err)
			}
			next.Cutting = true
			if err := errors.Join(logs.commit(nil, &next), interrupt(logs), logs.Close()); err != nil {
				t.Fatal(name, err)
			}
			logs = reopen(t, path)
			mustHold(t, logs, 1, next.First, next.Last)
			if err := logs.StoreLogs(entriesOf(1, next.Last+1, next.Last+5)); err != nil {
				t.Fatal(name, err)
			}
			if err := logs.Close(); err != nil {
				t.Fatal(err)
			}
			mustHold(t, reopen(t, path), 1, next.First, next.Last+5)
		}
	}
}

// To open the file is a transaction: a kill right after it is no damage.
func TestKilledWhileOpening(t *testing.T) {
	path, logs := newLogFile(t)
	if err := logs.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		store, _, err := openStore(path, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mustHold(t, reopen(t, path), 1, 1, 100)
}

// A log of an earlier transaction under today's meta page is damage.
func TestEarlierTransaction(t *testing.T) {
	path, logs := newLogFile(t)
	next := logs.current()
	next.TxID--
	record, err := encodeSeal(next)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(logs.store.StoreLog(&raft.Log{Index: sealIndex, Data: record}), logs.Close())
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyLogFile(path, 1000); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
}

// TestStoredWhileCut: entries are stored between two steps of a cut, and it is
// interrupted there.
func TestStoredWhileCut(t *testing.T) {
	path, logs := newLogFile(t)
	low, high, err := logs.beginCut(1, 40)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(logs.cut(low, low+9, high), logs.StoreLogs(entriesOf(1, 101, 110)), logs.cut(low+10, low+19, high), logs.Close()); err != nil {
		t.Fatal(err)
	}
	logs = reopen(t, path)
	mustHold(t, logs, 1, 41, 110)
	if err := logs.DeleteRange(41, 110); err != nil {
		t.Fatal(err)
	}
	if s := logs.current(); s.First <= s.Last || s.Cutting {
		t.Fatalf("an emptied log has seal %+v", s)
	}
}

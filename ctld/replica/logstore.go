package replica

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// FirstIndex implements raft.LogStore.
func (f *logFile) FirstIndex() (uint64, error) {
	if s := f.current(); s.Last >= s.First {
		return s.First, nil
	}
	return 0, nil
}

// LastIndex implements raft.LogStore.
func (f *logFile) LastIndex() (uint64, error) {
	if s := f.current(); s.Last >= s.First {
		return s.Last, nil
	}
	return 0, nil
}

// IsMonotonic implements raft.MonotonicLogStore: there are no gaps.
func (f *logFile) IsMonotonic() bool { return true }

// GetLog implements raft.LogStore.
func (f *logFile) GetLog(index uint64, log *raft.Log) error {
	if s := f.current(); index < s.First || index > s.Last {
		return raft.ErrLogNotFound
	}
	if f.recent.get(index, log) {
		return nil
	}
	record, err := readRecord(f.store, index)
	if err == nil {
		err = decodeEntry(index, record, log)
	}
	if err == nil {
		return nil
	}
	err = damaged(f.path, err)
	if broken := f.broken.Load(); broken != nil {
		(*broken)(err)
		runtime.Goexit()
	}
	return err
}

// readRecord returns what the store has under an index.
func readRecord(store *raftboltdb.BoltStore, index uint64) (record []byte, err error) {
	// The file is mapped: a page that the disk does not return raises a signal.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("entry %d: %v", index, fault)
		}
	}()
	var stored raft.Log
	switch err := store.GetLog(index, &stored); {
	case errors.Is(err, raft.ErrLogNotFound):
		return nil, fmt.Errorf("entry %d is missing", index)
	case err != nil:
		return nil, fmt.Errorf("entry %d: %w", index, err)
	case stored.Index != index:
		return nil, fmt.Errorf("entry %d is entry %d", index, stored.Index)
	}
	return stored.Data, nil
}

func readSeal(store *raftboltdb.BoltStore) (seal, error) {
	record, err := readRecord(store, sealIndex)
	if err != nil {
		return seal{}, errors.New("it has no seal")
	}
	return decodeSeal(record)
}

// StoreLog implements raft.LogStore.
func (f *logFile) StoreLog(log *raft.Log) error { return f.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. raft removes entries before it replaces
// them.
func (f *logFile) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	err := f.update(func(next *seal) ([]*raft.Log, error) {
		if first := logs[0].Index; next.Last < next.First {
			next.First, next.Last, next.Sum = first, first-1, 0
		}
		entries := make([]*raft.Log, 0, len(logs)+1)
		for _, log := range logs {
			if log.Index != next.Last+1 {
				return nil, fmt.Errorf("entry %d does not continue a log from %d to %d", log.Index, next.First, next.Last)
			}
			record, sum := encodeEntry(next.Sum, log)
			entries = append(entries, &raft.Log{Index: log.Index, Data: record})
			next.Last, next.Sum = log.Index, sum
		}
		return entries, nil
	})
	if err == nil {
		f.recent.add(logs)
	}
	return err
}

// cutStep is how many entries are removed at once: entries to be stored
// meanwhile wait no longer than that.
const cutStep = 512

// DeleteRange implements raft.LogStore: raft removes entries from either end.
// The seal announces it first, so that an interrupted cut can be finished
// later. Entries may be stored in between.
func (f *logFile) DeleteRange(low, high uint64) error {
	f.cutting.Lock()
	defer f.cutting.Unlock()
	low, high, err := f.beginCut(low, high)
	for first := low; err == nil && first <= high; first += cutStep {
		err = f.cut(first, min(first+cutStep-1, high), high)
	}
	return err
}

// beginCut makes the log shorter and returns what is left to be removed.
func (f *logFile) beginCut(low, high uint64) (uint64, uint64, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.recent.forget()
	next := f.current()
	low, high = max(low, next.First), min(high, next.Last)
	if low > high {
		return low, high, nil
	}
	if err := f.shorten(&next, low, high); err != nil {
		return low, high, f.failed(err)
	}
	next.Cutting = true
	return low, high, f.commit(nil, &next)
}

// cut removes some entries, and seals that: the seal is never more than one
// transaction old.
func (f *logFile) cut(first, last, end uint64) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err := f.remove(first, last); err != nil {
		return f.failed(err)
	}
	next := f.current()
	next.Cutting = last < end
	return f.commit(nil, &next)
}

// shorten makes the seal that of the log without some entries.
func (f *logFile) shorten(next *seal, low, high uint64) error {
	switch {
	case low == next.First:
		next.First = high + 1
		if next.First > next.Last {
			next.Sum = 0
		}
		return nil
	case high == next.Last:
		next.Last = low - 1
		record, err := readRecord(f.store, next.Last)
		if err == nil {
			_, next.Sum, err = checkEntry(next.Last, record)
		}
		return err
	}
	return fmt.Errorf("entries %d to %d lie in the middle of the log", low, high)
}

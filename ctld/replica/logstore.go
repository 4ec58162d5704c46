package replica

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
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
	err := f.read(index, log)
	if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
		err = damaged(f.path, err)
		if broken := f.broken.Load(); broken != nil {
			(*broken)(err)
			runtime.Goexit()
		}
	}
	return err
}

func (f *logFile) read(index uint64, log *raft.Log) (err error) {
	// The file is mapped: a page that the disk does not give is a signal.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("entry %d: %v", index, fault)
		}
	}()
	return f.db.View(func(tx *bbolt.Tx) error {
		record := tx.Bucket(bucketLog).Get(keyOf(index))
		if record == nil {
			return raft.ErrLogNotFound
		}
		return decodeEntry(index, record, log)
	})
}

// StoreLog implements raft.LogStore.
func (f *logFile) StoreLog(log *raft.Log) error { return f.StoreLogs([]*raft.Log{log}) }

// StoreLogs implements raft.LogStore. Entries that are there already are
// replaced, and what follows them goes.
func (f *logFile) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	return f.update(func(bucket *bbolt.Bucket, s *seal) error {
		switch first := logs[0].Index; {
		case s.Last < s.First && first >= s.First:
			s.First, s.Last, s.Sum = first, first-1, 0
		case first < s.First || first > s.Last+1:
			return fmt.Errorf("entry %d does not go on a log from %d to %d", first, s.First, s.Last)
		case first <= s.Last:
			if err := cutTail(bucket, s, first); err != nil {
				return err
			}
		}
		for _, log := range logs {
			if log.Index != s.Last+1 {
				return fmt.Errorf("entry %d after entry %d", log.Index, s.Last)
			}
			record, sum := encodeEntry(s.Sum, log)
			if err := bucket.Put(keyOf(log.Index), record); err != nil {
				return err
			}
			s.Last, s.Sum = log.Index, sum
		}
		return nil
	})
}

// DeleteRange implements raft.LogStore: raft takes away from either end.
func (f *logFile) DeleteRange(low, high uint64) error {
	return f.update(func(bucket *bbolt.Bucket, s *seal) error {
		if low > s.First {
			if high < s.Last {
				return fmt.Errorf("entries %d to %d lie in the middle of the log", low, high)
			}
			return cutTail(bucket, s, low)
		}
		high = min(high, s.Last)
		if err := remove(bucket, s.First, high); err != nil {
			return err
		}
		s.First = max(s.First, high+1)
		if s.Last < s.First {
			s.Sum = 0
		}
		return nil
	})
}

// cutTail removes the entries from first on.
func cutTail(bucket *bbolt.Bucket, s *seal, first uint64) error {
	if err := remove(bucket, first, s.Last); err != nil {
		return err
	}
	s.Last, s.Sum = first-1, 0
	if s.Last < s.First {
		return nil
	}
	_, sum, err := checkEntry(s.Last, bucket.Get(keyOf(s.Last)))
	s.Sum = sum
	return err
}

func remove(bucket *bbolt.Bucket, first, last uint64) error {
	cursor, end := bucket.Cursor(), keyOf(last)
	for key, _ := cursor.Seek(keyOf(first)); key != nil && bytes.Compare(key, end) <= 0; key, _ = cursor.Next() {
		if err := cursor.Delete(); err != nil {
			return err
		}
	}
	return nil
}

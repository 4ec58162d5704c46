package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// logName is the file that holds the log, the term and the vote.
const logName = "raft.db"

// retryEvery is how often what found the disk full is tried again.
const retryEvery = 250 * time.Millisecond

// logFile is raft's log and stable store in one bbolt file.
//
// raft's own loop panics when the term can not be saved. Once serve was called
// a write that fails for good, or a record that is damaged, is told to broken
// instead, and the goroutine that needed it ends there: the peer is stopped by
// who hears of it.
type logFile struct {
	path    string
	logger  *slog.Logger
	db      *bbolt.DB
	file    *os.File // the one that bbolt writes
	closing chan struct{}
	broken  atomic.Pointer[func(error)] // nil until serve: then errors are returned

	writing sync.Mutex // one transaction at a time; guards nothing that is read
	mu      sync.RWMutex
	seal    seal
	room    room

	promised atomic.Int64 // room reserved by commands under way
}

func boltOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout: time.Second,
		// One page less to write per commit; the list is found again by a
		// scan when the file is opened.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}
}

// createLogFile makes an empty file whole or not at all.
func createLogFile(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what an interrupted start left: %w", err)
	}
	db, err := bbolt.Open(draft, 0o600, boltOptions())
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		if _, err := tx.CreateBucket(bucketLog); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(bucketSeal); err != nil {
			return err
		}
		return putSeal(tx, seal{First: 1})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(fmt.Errorf("make %s: %w", path, err), os.Remove(draft))
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("write directory %s: %w", path, err)
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil {
		return fmt.Errorf("write directory %s: %w", path, err)
	}
	return nil
}

// openLogFile opens a file that verifyLogFile has found whole.
func openLogFile(path string, logger *slog.Logger) (f *logFile, err error) {
	defer recoverDamage(path, &err)
	f = &logFile{path: path, logger: logger, closing: make(chan struct{})}
	options := boltOptions()
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err := os.OpenFile(name, flag, mode)
		f.file = file
		return file, err
	}
	f.db, err = bbolt.Open(path, 0o600, options)
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: another program holds %s: end it (fuser %s shows its process)", ErrLocked, path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := f.reload(); err != nil {
		return nil, errors.Join(damaged(path, err), f.db.Close())
	}
	f.makeRoom()
	return f, nil
}

// serve makes what goes wrong from now on the peer's end: see logFile.
func (f *logFile) serve(broken func(error)) { f.broken.Store(&broken) }

// reload reads the seal from the file.
func (f *logFile) reload() error {
	return f.db.View(func(tx *bbolt.Tx) error {
		read, err := decodeSeal(tx.Bucket(bucketSeal).Get(keySeal))
		if err == nil {
			f.mu.Lock()
			f.seal = read
			f.mu.Unlock()
		}
		return err
	})
}

func putSeal(tx *bbolt.Tx, s seal) error {
	s.TxID = tx.ID()
	record, err := encodeSeal(s)
	if err != nil {
		return err
	}
	return tx.Bucket(bucketSeal).Put(keySeal, record)
}

func (f *logFile) current() seal {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.seal
}

// update changes the log and the seal in one transaction. After an error
// nothing has changed. A full disk is an error that the next call may not
// meet; after any other the file can not be trusted to be written.
func (f *logFile) update(change func(log *bbolt.Bucket, next *seal) error) (err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	next := f.current()
	next.Stable = maps.Clone(next.Stable)
	if err := f.transact(change, &next); err != nil {
		if isFull(err) {
			return f.fullDisk(err)
		}
		err = fmt.Errorf("write %s: %w", f.path, err)
		if broken := f.broken.Load(); broken != nil {
			(*broken)(fmt.Errorf("%w; look at the disk, then start gctld again: what was accepted is there", err))
		}
		return err
	}
	f.mu.Lock()
	f.seal = next
	f.mu.Unlock()
	f.makeRoom()
	return nil
}

func (f *logFile) transact(change func(*bbolt.Bucket, *seal) error, next *seal) (err error) {
	defer recoverDamage(f.path, &err)
	return f.db.Update(func(tx *bbolt.Tx) error {
		if err := change(tx.Bucket(bucketLog), next); err != nil {
			return err
		}
		return putSeal(tx, *next)
	})
}

// recoverDamage turns a panic of bbolt, or a page the disk does not give, into
// an error. It must be deferred itself.
func recoverDamage(path string, err *error) {
	if fault := recover(); fault != nil {
		*err = damaged(path, fmt.Errorf("%v", fault))
	}
}

// unused says that no entry was ever stored.
func (f *logFile) unused() bool {
	s := f.current()
	return s.First == 1 && s.Last == 0
}

// reset makes the file as it was made.
func (f *logFile) reset() error {
	return f.update(func(_ *bbolt.Bucket, s *seal) error { *s = seal{First: 1}; return nil })
}

// Close closes the file. A writer that waits for room ends.
func (f *logFile) Close() error { return f.db.Close() }

// damaged says which file is not as it was written, and what can be done.
func damaged(path string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w %s: %w; nothing was changed. Put back a copy of the whole data directory; "+
		"where other controllers run, start this one again from an empty one and it gets all from them", ErrDamaged, path, err)
}

package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// logName is the file that holds the log, the term and the vote.
const logName = "raft.db"

// retryEvery is how often a write that found the disk full is tried again.
const retryEvery = 250 * time.Millisecond

// sealIndex is the index of the seal among the entries: after all others.
const sealIndex = math.MaxUint64

// logFile is raft's log and stable store, kept by raft-boltdb in one file. It
// adds checks that show any change of the file: each entry is a link of a
// chain, and each transaction writes the seal that the chain ends at.
//
// raft's own loop panics when the term cannot be saved. Once serve was called,
// a write that fails for good, or a damaged record, is reported to broken
// instead, and the goroutine that needed it ends there: the receiver of the
// report stops the peer.
type logFile struct {
	path    string
	logger  *slog.Logger
	store   *raftboltdb.BoltStore
	file    *os.File // the one that the store writes
	closing chan struct{}
	broken  atomic.Pointer[func(error)] // nil until serve: then errors are returned

	cutting sync.Mutex // one cut at a time
	writing sync.Mutex // one transaction at a time; guards nothing that is read
	mu      sync.RWMutex
	seal    seal
	room    room
	recent  recent

	promised atomic.Int64 // room reserved by commands under way

	writeSeconds prometheus.Observer // nil while the file is made or checked
}

// openStore opens the file and returns how it is written too.
func openStore(path string, readOnly bool) (store *raftboltdb.BoltStore, file *os.File, err error) {
	defer recoverDamage(path, &err)
	store, err = raftboltdb.New(raftboltdb.Options{
		Path:                    path,
		MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{
			ReadOnly: readOnly,
			Timeout:  time.Second,
			// One page less to write per commit; the list is found again by a
			// scan when the file is opened.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				var err error
				file, err = os.OpenFile(name, flag, mode)
				return file, err
			},
		},
	})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, nil, fmt.Errorf("%w: another program holds %s: end it (fuser %s shows its process)", ErrLocked, path, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	return store, file, nil
}

// createLogFile makes an empty file whole or not at all.
func createLogFile(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove what an interrupted start left: %w", err)
	}
	store, file, err := openStore(draft, false)
	if err != nil {
		return err
	}
	f := &logFile{path: draft, store: store, file: file}
	if err = errors.Join(f.write(nil, &seal{First: 1}), store.Close()); err != nil {
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

// openLogFile opens a file that verifyLogFile has checked.
func openLogFile(path string, logger *slog.Logger) (*logFile, error) {
	store, file, err := openStore(path, false)
	if err != nil {
		return nil, err
	}
	f := &logFile{path: path, logger: logger, store: store, file: file, closing: make(chan struct{})}
	if f.seal, err = readSeal(store); err == nil {
		f.makeRoom()
		err = f.settle()
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return f, nil
}

// settle ends a cut that was interrupted. The seal is rewritten in any case:
// opening the file was a transaction too, which the seal does not know.
func (f *logFile) settle() error {
	next := f.current()
	if next.Cutting {
		if err := f.remove(0, next.First-1); err != nil {
			return err
		}
		if err := f.remove(next.Last+1, sealIndex-1); err != nil {
			return err
		}
		next.Cutting = false
	}
	err := f.commit(nil, &next)
	if errors.Is(err, ErrFull) {
		return nil // the next transaction will do it
	}
	return err
}

// serve makes errors from now on stop the peer: see logFile.
func (f *logFile) serve(broken func(error)) { f.broken.Store(&broken) }

func (f *logFile) current() seal {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.seal
}

// update changes the log and the seal in one transaction. change returns the
// entries to add.
func (f *logFile) update(change func(next *seal) ([]*raft.Log, error)) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	next := f.current()
	next.Stable = maps.Clone(next.Stable)
	entries, err := change(&next)
	if err != nil {
		return f.failed(err)
	}
	return f.commit(entries, &next)
}

// commit writes entries and the seal. After an error nothing has changed.
func (f *logFile) commit(entries []*raft.Log, next *seal) error {
	if err := f.write(entries, next); err != nil {
		return f.failed(err)
	}
	f.mu.Lock()
	f.seal = *next
	f.mu.Unlock()
	f.makeRoom()
	return nil
}

// failed returns the error of a transaction. After a full disk the next
// transaction may succeed; after any other error the file cannot be trusted to
// be written.
func (f *logFile) failed(err error) error {
	if isFull(err) {
		return f.fullDisk(err)
	}
	err = fmt.Errorf("write %s: %w", f.path, err)
	if broken := f.broken.Load(); broken != nil {
		(*broken)(fmt.Errorf("%w; look at the disk, then start gctld again: what was accepted is there", err))
	}
	return err
}

// write is one transaction of the store. It puts its number into the seal.
func (f *logFile) write(entries []*raft.Log, next *seal) (err error) {
	defer recoverDamage(f.path, &err)
	meta, _, err := f.meta()
	if err != nil {
		return err
	}
	next.TxID = meta.txid + 1
	record, err := encodeSeal(*next)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = f.store.StoreLogs(append(entries, &raft.Log{Index: sealIndex, Data: record}))
	if err == nil && f.writeSeconds != nil {
		f.writeSeconds.Observe(time.Since(begin).Seconds())
	}
	return err
}

// remove removes entries, in a transaction that leaves the seal behind.
func (f *logFile) remove(first, last uint64) (err error) {
	if first > last {
		return nil
	}
	defer recoverDamage(f.path, &err)
	return f.store.DeleteRange(first, last)
}

// meta is the file's newer meta page, and the file's size.
func (f *logFile) meta() (meta boltMeta, size int64, err error) {
	info, err := f.file.Stat()
	if err != nil {
		return boltMeta{}, 0, err
	}
	meta, err = readMetas(f.file, info.Size())
	return meta, info.Size(), err
}

// recoverDamage turns a panic of bbolt, or a page that the disk does not
// return, into an error. It must be deferred itself.
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

// reset makes the file empty again.
func (f *logFile) reset() error {
	return f.update(func(next *seal) ([]*raft.Log, error) { *next = seal{First: 1}; return nil, nil })
}

// Close closes the file. A writer that waits for room ends.
func (f *logFile) Close() error { return f.store.Close() }

// damaged says which file was changed after it was written, and what can be
// done.
func damaged(path string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w %s: %w; nothing was changed", ErrDamaged, path, err)
}

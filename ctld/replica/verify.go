package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// verify reads everything on disk once before raft does. raft by itself
// falls back to an older snapshot when the newest is damaged, and panics on a
// damaged log; both would hide what happened, and the first loses jobs.
func verify(dir string, logs *checkedLog, stable raft.StableStore, snapshots *checkedSnapshots) (err error) {
	newest, err := verifySnapshots(dir, snapshots)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, logFile)
	defer func() {
		if fault := recover(); fault != nil {
			err = damaged(path, fmt.Errorf("%v", fault))
		}
	}()
	if err := verifyLog(logs, stable, newest); err != nil {
		return damaged(path, err)
	}
	return nil
}

// verifySnapshots checks the newest snapshot whole and answers its index, 0
// when there is none.
func verifySnapshots(dir string, snapshots *checkedSnapshots) (uint64, error) {
	folder := filepath.Join(dir, "snapshots")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("read snapshots: %w", err)
	}
	list, err := snapshots.List()
	if err != nil {
		return 0, damaged(folder, err)
	}
	var listed uint64
	if len(list) > 0 {
		listed = list[0].Index
	}
	for _, entry := range entries {
		// raft skips a snapshot whose meta.json it can not read. An older one
		// may be what a crash left of a deletion; a newer one is a loss.
		if index, ok := snapshotIndex(entry.Name()); ok && index > listed {
			return 0, damaged(filepath.Join(folder, entry.Name(), "meta.json"), errors.New("can not be read"))
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	meta, file, err := snapshots.Open(list[0].ID)
	if err != nil {
		return 0, damaged(filepath.Join(folder, list[0].ID), err)
	}
	defer file.Close()
	if _, err := io.Copy(io.Discard, file); err != nil {
		return 0, damaged(filepath.Join(folder, list[0].ID, "state.bin"), err)
	}
	return meta.Index, nil
}

// snapshotIndex reads the index from a snapshot's name, TERM-INDEX-TIME. A
// name that ends otherwise (.tmp) is not a finished snapshot.
func snapshotIndex(name string) (uint64, bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return 0, false
	}
	if _, err := strconv.ParseUint(parts[2], 10, 64); err != nil {
		return 0, false
	}
	index, err := strconv.ParseUint(parts[1], 10, 64)
	return index, err == nil
}

// verifyLog reads every entry: the log is whole, in order, and goes on where
// the snapshot ends.
func verifyLog(logs *checkedLog, stable raft.StableStore, snapshot uint64) error {
	first, err := logs.FirstIndex()
	if err != nil {
		return err
	}
	last, err := logs.LastIndex()
	if err != nil {
		return err
	}
	if last == 0 {
		return nil
	}
	if first > snapshot+1 {
		return fmt.Errorf("it begins at entry %d, and the newest snapshot ends at %d", first, snapshot)
	}
	var term uint64
	for index := first; index <= last; index++ {
		var log raft.Log
		if err := logs.GetLog(index, &log); err != nil {
			return fmt.Errorf("entry %d of %d to %d: %w", index, first, last, err)
		}
		if log.Term < term {
			return fmt.Errorf("entry %d has term %d after term %d", index, log.Term, term)
		}
		term = log.Term
	}
	current, err := stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		return fmt.Errorf("read the term: %w", err)
	}
	if current < term {
		return fmt.Errorf("the term is %d, and an entry has term %d", current, term)
	}
	return nil
}

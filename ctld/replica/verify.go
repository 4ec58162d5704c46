package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// maxMetaBytes bounds a snapshot's meta.json, which names the peers.
const maxMetaBytes = 4 << 20

// verifySnapshots checks the whole newest snapshot and returns its index, 0
// when there is none. raft by itself falls back to an older one when the newest
// is damaged, and so loses jobs.
func verifySnapshots(dir string, snapshots *checkedSnapshots) (uint64, error) {
	folder := filepath.Join(dir, "snapshots")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("read snapshots: %w", err)
	}
	for _, entry := range entries {
		meta := filepath.Join(folder, entry.Name(), "meta.json")
		if info, err := os.Stat(meta); err == nil && (!info.Mode().IsRegular() || info.Size() > maxMetaBytes) {
			return 0, damaged(meta, fmt.Errorf("%s of %d bytes", info.Mode(), info.Size()))
		}
	}
	list, err := snapshots.List()
	if err != nil {
		return 0, damaged(folder, err)
	}
	newest := newestName(entries)
	for _, meta := range list {
		path := filepath.Join(folder, meta.ID, "meta.json")
		if there, err := exists(path); err == nil && there && !strings.HasPrefix(meta.ID, fmt.Sprintf("%d-%d-", meta.Term, meta.Index)) {
			return 0, damaged(path, fmt.Errorf("it says it is of entry %d in term %d", meta.Index, meta.Term))
		}
	}
	switch {
	case newest == "" && len(list) == 0:
		return 0, nil
	case len(list) == 0 || list[0].ID != newest:
		// raft skips what it cannot read; the older snapshot that it takes then
		// would mean a loss.
		return 0, damaged(filepath.Join(folder, newest, "meta.json"), errors.New("it is not what was written"))
	}
	return list[0].Index, verifySnapshot(filepath.Join(folder, newest), newest, snapshots)
}

// newestName is the directory of the newest finished snapshot in raft's order,
// "" for none: by term, by index, by time. Two may end at the same entry: a
// recovery leaves such ones.
func newestName(entries []os.DirEntry) string {
	newest, highest := "", [3]uint64{}
	for _, entry := range entries {
		if numbers, ok := snapshotNumbers(entry.Name()); ok && slices.Compare(numbers[:], highest[:]) > 0 {
			newest, highest = entry.Name(), numbers
		}
	}
	return newest
}

// verifySnapshot reads one snapshot to its end.
func verifySnapshot(path, id string, snapshots *checkedSnapshots) error {
	meta, file, err := snapshots.Open(id)
	if err != nil {
		return damaged(path, err)
	}
	defer file.Close()
	read, err := io.Copy(io.Discard, file)
	if err == nil && read != meta.Size {
		err = fmt.Errorf("it has %d bytes, and meta.json says %d", read, meta.Size)
	}
	if err != nil {
		return damaged(filepath.Join(path, "state.bin"), err)
	}
	return nil
}

// snapshotNumbers reads a snapshot's name, TERM-INDEX-TIME. A name with another
// ending (.tmp) is not a finished snapshot.
func snapshotNumbers(name string) (numbers [3]uint64, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		var err error
		if numbers[i], err = strconv.ParseUint(part, 10, 64); err != nil {
			return numbers, false
		}
	}
	return numbers, true
}

// verifyLogFile reads the log file to its end: the log is whole, in order, and
// continues where the snapshot ends. snapshot is its index, 0 for none.
func verifyLogFile(path string, snapshot uint64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	if !info.Mode().IsRegular() {
		return damaged(path, fmt.Errorf("it is no file but %s", info.Mode()))
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer file.Close()
	meta, records, err := verifyPages(file, info.Size())
	if err != nil {
		return damaged(path, err)
	}
	store, _, err := openStore(path, true)
	if err != nil {
		return err
	}
	if err = verifyEntries(store, meta, records, snapshot); err != nil {
		err = damaged(path, err)
	}
	return errors.Join(err, store.Close())
}

// verifyPages checks what bbolt will follow, and counts the records.
func verifyPages(file io.ReaderAt, size int64) (meta boltMeta, records uint64, err error) {
	meta, err = readMetas(file, size)
	if errors.Is(err, io.EOF) {
		return meta, 0, fmt.Errorf("it has only %d bytes: it was cut off", size)
	}
	if err != nil {
		return meta, 0, err
	}
	pages := &boltFile{file: file, meta: meta, seen: make([]bool, meta.pages)}
	buckets := map[string][]byte{}
	err = pages.walk(meta.root, nil, nil, 0, func(key, value []byte, isBucket bool) error {
		if !isBucket {
			return fmt.Errorf("%.20q is no bucket", key)
		}
		buckets[string(key)] = append([]byte(nil), value...)
		return nil
	})
	if err != nil {
		return meta, 0, err
	}
	// The names are raft-boltdb's.
	logs, conf := buckets["logs"], buckets["conf"]
	if len(buckets) != 2 || logs == nil || conf == nil {
		return meta, 0, errors.New("it is not a log of this version of gctld")
	}
	err = pages.walkBucket(logs, func(key, value []byte, isBucket bool) error {
		if isBucket || len(key) != 8 {
			return fmt.Errorf("%.20q is no entry", key)
		}
		records++
		// raft-boltdb allocates whatever length is written there. From a slice
		// it takes no more than there is.
		if err := codec.NewDecoderBytes(value, new(codec.MsgpackHandle)).Decode(new(raft.Log)); err != nil {
			return fmt.Errorf("entry %d: %w", binary.BigEndian.Uint64(key), err)
		}
		return nil
	})
	if err != nil {
		return meta, 0, err
	}
	return meta, records, pages.walkBucket(conf, func(key, _ []byte, _ bool) error {
		return fmt.Errorf("%.20q is where nothing should be", key)
	})
}

// verifyEntries compares the records with the seal: all of them are there, and
// nothing else.
func verifyEntries(store *raftboltdb.BoltStore, meta boltMeta, records, snapshot uint64) error {
	s, err := readSeal(store)
	if err != nil {
		return err
	}
	last := s.TxID
	if s.Cutting && meta.txid == s.TxID+1 {
		last++
	}
	if last != meta.txid && !(meta.idle && last < meta.txid) {
		return fmt.Errorf("the seal is of transaction %d, the file of %d", s.TxID, meta.txid)
	}
	if s.First > snapshot+1 {
		return fmt.Errorf("it begins at entry %d, and the newest snapshot ends at %d: a snapshot is missing", s.First, snapshot)
	}
	if want := s.Last + 1 - s.First + 1; records != want && !(s.Cutting && records > want) {
		return fmt.Errorf("it has %d records and should have %d", records, want)
	}
	return checkEntries(store, s)
}

// checkEntries follows the chain of entries from the first to the seal.
func checkEntries(store *raftboltdb.BoltStore, s seal) error {
	before, term := uint32(0), uint64(0)
	for index := s.First; index <= s.Last; index++ {
		record, err := readRecord(store, index)
		if err != nil {
			return err
		}
		previous, sum, err := checkEntry(index, record)
		if err != nil {
			return err
		}
		if index > s.First && previous != before {
			return fmt.Errorf("entry %d does not follow entry %d", index, index-1)
		}
		before, term = sum, entryTerm(record)
	}
	if before != s.Sum {
		return fmt.Errorf("entry %d is not the last that was written", s.Last)
	}
	if current := s.Stable["CurrentTerm"]; term > 0 && (len(current) != 8 || binary.BigEndian.Uint64(current) < term) {
		return fmt.Errorf("the last entry is of term %d, later than the term that was saved", term)
	}
	return nil
}

// exists reports whether a path exists, whatever its kind.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

package replica

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// logFile holds the log, the term and the vote.
const logFile = "raft.db"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openLog opens the log's file. A damaged one may make bbolt panic, which is
// turned into an error that names it.
func openLog(dir string) (store *raftboltdb.BoltStore, err error) {
	path := filepath.Join(dir, logFile)
	defer func() {
		if fault := recover(); fault != nil {
			store, err = nil, damaged(path, fmt.Errorf("%v", fault))
		}
	}()
	store, err = raftboltdb.New(raftboltdb.Options{
		Path:                    path,
		MsgpackUseNewTimeFormat: true,
		BoltOptions: &bbolt.Options{
			Timeout: time.Second,
			// One page less to write per commit; the list is found again by
			// a scan when the file is opened.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	if errors.Is(err, bbolterrors.ErrInvalid) || errors.Is(err, bbolterrors.ErrChecksum) || errors.Is(err, bbolterrors.ErrVersionMismatch) {
		return nil, damaged(path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return store, nil
}

// checkedLog adds a checksum to every entry. bbolt checks its own meta pages
// only, so a flipped bit in an entry would go unnoticed.
type checkedLog struct {
	raft.LogStore
}

func (c *checkedLog) GetLog(index uint64, log *raft.Log) error {
	if err := c.LogStore.GetLog(index, log); err != nil {
		return err
	}
	if log.Index != index || len(log.Extensions) != 4 || binary.BigEndian.Uint32(log.Extensions) != checksum(log) {
		return fmt.Errorf("%w: entry %d fails its checksum", ErrDamaged, index)
	}
	log.Extensions = nil
	return nil
}

func (c *checkedLog) StoreLog(log *raft.Log) error {
	return c.StoreLogs([]*raft.Log{log})
}

func (c *checkedLog) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, log := range logs {
		entry := *log
		entry.Extensions = binary.BigEndian.AppendUint32(nil, checksum(log))
		sealed[i] = &entry
	}
	return c.LogStore.StoreLogs(sealed)
}

func checksum(log *raft.Log) uint32 {
	header := make([]byte, 0, 17)
	header = binary.BigEndian.AppendUint64(header, log.Index)
	header = binary.BigEndian.AppendUint64(header, log.Term)
	header = append(header, byte(log.Type))
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, log.Data)
}

// checkedSnapshots repeats a snapshot's index, term and members inside the
// file whose checksum raft verifies: raft itself keeps them beside it, in a
// file without one.
type checkedSnapshots struct {
	raft.SnapshotStore
}

// snapshotHeader opens the file: its length as 4 bytes, big-endian, then
// itself as JSON.
type snapshotHeader struct {
	Index, Term, ConfigurationIndex uint64
	Members                         []raft.Server
}

// maxHeaderBytes bounds what is read before anything is known of a file.
const maxHeaderBytes = 1 << 20

func (c *checkedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, transport raft.Transport) (raft.SnapshotSink, error) {
	sink, err := c.SnapshotStore.Create(version, index, term, members, membersIndex, transport)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(snapshotHeader{Index: index, Term: term, ConfigurationIndex: membersIndex, Members: members.Servers})
	if err == nil {
		_, err = sink.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	if err != nil {
		_ = sink.Cancel()
		return nil, fmt.Errorf("begin snapshot %s: %w", sink.ID(), err)
	}
	return sink, nil
}

func (c *checkedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, file, err := c.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, id, err)
	}
	length, err := checkHeader(meta, file)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("%w: snapshot %s: %w", ErrDamaged, id, err)
	}
	meta.Size -= length
	return meta, file, nil
}

func checkHeader(meta *raft.SnapshotMeta, file io.Reader) (int64, error) {
	var size [4]byte
	if _, err := io.ReadFull(file, size[:]); err != nil {
		return 0, fmt.Errorf("read header: %w", err)
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > maxHeaderBytes {
		return 0, fmt.Errorf("header of %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(file, text); err != nil {
		return 0, fmt.Errorf("read header: %w", err)
	}
	want, err := json.Marshal(snapshotHeader{Index: meta.Index, Term: meta.Term, ConfigurationIndex: meta.ConfigurationIndex, Members: meta.Configuration.Servers})
	if err != nil {
		return 0, err
	}
	if string(text) != string(want) {
		return 0, fmt.Errorf("meta.json says %s, state.bin says %s", want, text)
	}
	return int64(length) + 4, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w %s: %w; put back a copy of the whole data directory, or start another peer from an empty one", ErrDamaged, path, err)
}

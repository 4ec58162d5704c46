package replica

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// checkedSnapshots repeats a snapshot's index, term and members inside the file
// whose checksum raft verifies: raft itself keeps them in another file, without
// a checksum.
type checkedSnapshots struct {
	raft.SnapshotStore
	folder string
}

// snapshotHeader is at the start of the file: its length as 4 bytes,
// big-endian, then itself as JSON.
type snapshotHeader struct {
	Index, Term, ConfigurationIndex uint64
	Members                         []raft.Server
}

// maxHeaderBytes bounds what is read before anything is known about a file.
const maxHeaderBytes = 1 << 20

func (c *checkedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, membersIndex uint64, transport raft.Transport) (raft.SnapshotSink, error) {
	inner, err := c.SnapshotStore.Create(version, index, term, members, membersIndex, transport)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin a snapshot: %w", err), removeUnfinished(c.folder, fmt.Sprintf("%d-%d-*", term, index)))
	}
	sink := &cleanSink{SnapshotSink: inner, folder: c.folder}
	text, err := json.Marshal(snapshotHeader{Index: index, Term: term, ConfigurationIndex: membersIndex, Members: members.Servers})
	if err == nil {
		_, err = sink.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	return sink, nil
}

// cleanSink leaves nothing behind of a failed snapshot: raft leaves it on a
// full disk, where it would take the last of the room.
type cleanSink struct {
	raft.SnapshotSink
	folder string
}

// sync brings to the disk what was written so far.
func (s *cleanSink) sync() error {
	file, err := os.OpenFile(filepath.Join(s.folder, s.ID()+".tmp", "state.bin"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fdatasync(int(file.Fd())), file.Close())
}

func (s *cleanSink) Close() error  { return s.clean(s.SnapshotSink.Close()) }
func (s *cleanSink) Cancel() error { return s.clean(s.SnapshotSink.Cancel()) }

func (s *cleanSink) clean(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(err, removeUnfinished(s.folder, s.ID()))
}

// removeUnfinished removes snapshots that were never finished, by a pattern of
// their names.
func removeUnfinished(folder, pattern string) error {
	found, err := filepath.Glob(filepath.Join(folder, pattern+".tmp"))
	for _, path := range found {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func (c *checkedSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, file, err := c.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: %w", id, err)
	}
	length, err := checkHeader(meta, file)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("snapshot %s: %w", id, err)
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

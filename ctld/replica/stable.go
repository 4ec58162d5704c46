package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"github.com/hashicorp/raft"
)

// errNotFound has the text that raft looks for when a key has no value.
var errNotFound = errors.New("not found")

// Set implements raft.StableStore.
func (f *logFile) Set(key, value []byte) error {
	if former, found := f.current().Stable[string(key)]; found && bytes.Equal(former, value) {
		return nil // as at each start: it must not need room on the disk
	}
	for {
		err := f.update(func(next *seal) ([]*raft.Log, error) {
			if next.Stable == nil {
				next.Stable = make(map[string][]byte)
			}
			next.Stable[string(key)] = append([]byte(nil), value...)
			return nil, nil
		})
		if err == nil || f.broken.Load() == nil {
			return err
		}
		if !errors.Is(err, ErrFull) {
			runtime.Goexit()
		}
		// raft asks once, and panics at an error. So it waits here instead.
		select {
		case <-time.After(retryEvery):
		case <-f.closing:
			runtime.Goexit()
		}
	}
}

// Get implements raft.StableStore.
func (f *logFile) Get(key []byte) ([]byte, error) {
	value, found := f.current().Stable[string(key)]
	if !found {
		return nil, errNotFound
	}
	return append([]byte(nil), value...), nil
}

// SetUint64 implements raft.StableStore.
func (f *logFile) SetUint64(key []byte, value uint64) error {
	return f.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements raft.StableStore.
func (f *logFile) GetUint64(key []byte) (uint64, error) {
	value, err := f.Get(key)
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, errors.New("not a number")
	}
	return binary.BigEndian.Uint64(value), nil
}

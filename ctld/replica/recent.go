package replica

import (
	"sync"

	"github.com/hashicorp/raft"
)

// What recent holds at most: as many entries as one message to another peer,
// and only entries of the size of most commands, so that it is bounded to a few
// megabytes whatever users submit.
const (
	recentEntries    = maxBatch
	recentEntryBytes = 8 << 10
)

// recent keeps the last entries that were stored, since raft reads each back at
// once: the leader to send it, the others to apply it. raft's own cache is
// bounded by number only, and an entry may be megabytes large.
type recent struct {
	mu   sync.RWMutex
	ring [recentEntries]*raft.Log
}

// add adds entries that are on disk.
func (r *recent) add(logs []*raft.Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, log := range logs {
		place := &r.ring[log.Index%recentEntries]
		if *place = log; len(log.Data) > recentEntryBytes {
			*place = nil
		}
	}
}

// get returns an entry if it is there.
func (r *recent) get(index uint64, log *raft.Log) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	kept := r.ring[index%recentEntries]
	if kept == nil || kept.Index != index {
		return false
	}
	*log = *kept
	return true
}

// forget drops all, before entries are removed.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.ring[:])
}

package replica

import (
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// TestRecentEntries: what was stored last is read back without the file, but
// for what is large, and nothing of it outlives its place in the log.
func TestRecentEntries(t *testing.T) {
	_, logs := newLogFile(t)
	mustHold(t, logs, 1, 1, 100)
	if !logs.recent.get(100, new(raft.Log)) {
		t.Error("the last entry is not at hand")
	}
	large := &raft.Log{Index: 101, Term: 1, Data: make([]byte, recentEntryBytes+1)}
	if err := logs.StoreLog(large); err != nil {
		t.Fatal(err)
	}
	var read raft.Log
	if err := logs.GetLog(101, &read); err != nil || len(read.Data) != len(large.Data) || logs.recent.get(101, new(raft.Log)) {
		t.Errorf("a large entry: %d bytes, %v; kept at hand: %v", len(read.Data), err, logs.recent.get(101, new(raft.Log)))
	}
	// Another leader replaces the end.
	if err := errors.Join(logs.DeleteRange(51, 101), logs.StoreLogs(entriesOf(1, 51, 60))); err != nil {
		t.Fatal(err)
	}
	mustHold(t, logs, 1, 1, 60)
	if logs.recent.get(99, new(raft.Log)) {
		t.Error("an entry that was taken away is still at hand")
	}
	if err := logs.StoreLogs(entriesOf(1, 61, 61+2*recentEntries)); err != nil {
		t.Fatal(err)
	}
	mustHold(t, logs, 1, 1, 61+2*recentEntries)
}

package replica

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// TestRestore puts another state in the place of the present one, and continues
// from it, also after a restart.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	peer, machine := openPeer(t, dir)
	for range 30 {
		propose(t, peer, "lost")
	}
	text, err := json.Marshal([]string{"kept", "too"})
	if err != nil {
		t.Fatal(err)
	}
	before := peer.AppliedIndex()
	if err := peer.Restore(context.Background(), int64(len(text)), bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	propose(t, peer, "after")
	want := []string{"kept", "too", "after"}
	if got := machine.all(); !slices.Equal(got, want) || peer.AppliedIndex() <= before {
		t.Fatalf("restored: %v at %d, before at %d", got, peer.AppliedIndex(), before)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	peer, machine = openPeer(t, dir, func(o *Options) { o.Existing = true })
	if got := machine.all(); !slices.Equal(got, want) {
		t.Fatalf("after a restart: %v", got)
	}
	if members := peer.Members(); len(members) != 1 || members[0].Name != "p1" {
		t.Fatalf("members: %v", members)
	}
}

// TestRestoreCutShort: a state that is not there to its end changes nothing.
func TestRestoreCutShort(t *testing.T) {
	peer, machine := openPeer(t, t.TempDir())
	propose(t, peer, "kept")
	if err := peer.Restore(context.Background(), 100, strings.NewReader(`["lost"]`)); err == nil {
		t.Fatal("it was taken")
	}
	propose(t, peer, "after")
	if got := machine.all(); !slices.Equal(got, []string{"kept", "after"}) {
		t.Fatalf("after it: %v", got)
	}
}

// TestRestoreOfDamage: a state that the machine does not take stops the peer,
// and the process continues.
func TestRestoreOfDamage(t *testing.T) {
	peer, _ := openPeer(t, t.TempDir())
	propose(t, peer, "x")
	if err := peer.Restore(context.Background(), 5, strings.NewReader("{{{{{")); err == nil {
		t.Fatal("it was taken")
	}
	prototest.Receive(t, "the peer stops", peer.Failed())
}

// TestRestoreInterrupted: the snapshot of a restore is there, the entries before
// it are too, and nothing continues the last of them.
func TestRestoreInterrupted(t *testing.T) {
	dir := t.TempDir()
	peer, _ := openPeer(t, dir)
	for range 10 {
		propose(t, peer, "lost")
	}
	last, term := peer.raft.LastIndex(), peer.Term()
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, err := openSnapshots(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	_, transport := raft.NewInmemTransport("p1")
	sink, err := snapshots.Create(1, last+1, term, raft.Configuration{Servers: []raft.Server{{ID: "p1", Address: "p1"}}}, 1, transport)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.NewEncoder(sink).Encode([]string{"kept"}), sink.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		peer, machine := openPeer(t, dir, func(o *Options) { o.Existing = true })
		propose(t, peer, "after")
		if got := machine.all(); got[0] != "kept" || got[len(got)-1] != "after" {
			t.Fatalf("it resumes from %v", got)
		}
		if err := peer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// lostMajority is the directory of p1, one of three peers, with some commands.
func lostMajority(t *testing.T, commands ...string) (dir string, options Options) {
	t.Helper()
	dir = t.TempDir()
	options = Options{Dir: dir, Name: "p1", Logger: quiet}
	setDefaults(&options)
	snapshots, logs, err := openFiles(options)
	if err != nil {
		t.Fatal(err)
	}
	var members raft.Configuration
	for _, name := range []string{"p1", "p2", "p3"} {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(name + ":1")})
	}
	_, transport := raft.NewInmemTransport("p1:1")
	config := raftConfig(options)
	config.Logger = bridge(quiet)
	if err := raft.BootstrapCluster(config, logs, logs, snapshots, transport, members); err != nil {
		t.Fatal(err)
	}
	for i, command := range commands {
		if err := logs.StoreLog(&raft.Log{Index: uint64(i) + 2, Term: 1, Type: raft.LogCommand, Data: []byte(command)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := logs.Close(); err != nil {
		t.Fatal(err)
	}
	options.Existing = true
	return dir, options
}

func TestRecover(t *testing.T) {
	dir, options := lostMajority(t, "a", "b")
	before := treeSum(t, dir)
	machine := &ledger{}
	survey, err := Inspect(options, machine)
	if err != nil {
		t.Fatal(err)
	}
	if survey.LastIndex != 3 || survey.LastTerm != 1 || len(survey.Members) != 3 || survey.Members[1] != (Member{"p2", "p2:1", true}) {
		t.Fatalf("%+v", survey)
	}
	if got := machine.all(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("it holds %v", got)
	}
	if treeSum(t, dir) != before {
		t.Fatal("to look at it has changed it")
	}
	if err := Recover(options, "p1:1", &ledger{}); err != nil {
		t.Fatal(err)
	}
	goesOnAlone(t, dir, options)
}

// TestRecoverInterrupted: the snapshot of a recovery is there and the log is
// not cut yet. It can be started as it is, and recovered again.
func TestRecoverInterrupted(t *testing.T) {
	for _, again := range []bool{false, true} {
		dir, options := lostMajority(t, "a", "b")
		snapshots, logs, err := openFiles(options)
		if err != nil {
			t.Fatal(err)
		}
		err = recoverAlone(options, "p1:1", &ledger{}, snapshots, uncuttable{logs})
		if err == nil || !strings.Contains(err.Error(), errUncut.Error()) {
			t.Fatal(err)
		}
		if err := logs.Close(); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := Recover(options, "p1:1", &ledger{}); err != nil {
				t.Fatal(err)
			}
		}
		goesOnAlone(t, dir, options)
	}
}

var errUncut = errors.New("killed here")

type uncuttable struct{ *logFile }

func (uncuttable) DeleteRange(uint64, uint64) error { return errUncut }

func goesOnAlone(t *testing.T, dir string, options Options) {
	t.Helper()
	for round := range 2 {
		peer, machine := openPeer(t, dir, func(o *Options) { o.Existing = true })
		propose(t, peer, "after")
		if got := machine.all(); len(got) != 3+round || got[1] != "b" {
			t.Fatalf("it continues with %v", got)
		}
		if members := peer.Members(); len(members) != 1 || members[0].Address != "p1:1" {
			t.Fatalf("members: %v", members)
		}
		if err := peer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Inspect(options, &ledger{}); err != nil {
		t.Fatal(err)
	}
}

// TestRecoverLocked: not while it runs.
func TestRecoverLocked(t *testing.T) {
	dir := t.TempDir()
	openPeer(t, dir)
	options := Options{Dir: dir, Name: "p1"}
	if _, err := Inspect(options, &ledger{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("inspect: %v", err)
	}
	if err := Recover(options, "", &ledger{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("recover: %v", err)
	}
}

// treeSum is all that is in a directory but the lock, as text.
func treeSum(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && entry.Name() != "lock" {
			text, err := os.ReadFile(dir + "/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(entry.Name())
			all.Write(text)
		}
	}
	return all.String()
}

package replica

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// TestReplacedDiskHasNoVoice: a peer whose disk was replaced is among the
// voters and has forgotten what it had. Until it was added again it must not
// help to elect a leader that lacks accepted entries, and must not count for a
// majority.
func TestReplacedDiskHasNoVoice(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		leader := g.leader()
		var others []string
		for name := range g.peers {
			if name != leader {
				others = append(others, name)
			}
		}
		slices.Sort(others)
		stale, wiped := others[0], others[1]
		g.close(stale)
		g.propose("accepted by the leader and one other")
		g.close(wiped)
		if err := os.RemoveAll(g.dirs[wiped]); err != nil {
			t.Fatal(err)
		}
		g.open(wiped, func(o *Options) { o.Join = true })
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		if _, err := g.peers[leader].Propose(ctx, []byte("with a wiped one")); err == nil {
			t.Fatal("a peer that has forgotten everything counted for a majority")
		}
		g.close(leader)
		g.reopen(stale)
		for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if g.peers[stale].IsLeader() || g.peers[wiped].IsLeader() {
				t.Fatalf("a leader was elected that lacks what was accepted: %v", g.machines[stale].all())
			}
		}
		// The one that has it comes back, and the replaced disk is added again.
		g.reopen(leader)
		if err := g.peers[g.leader()].Remove(g.soon(), wiped); err != nil {
			t.Fatal(err)
		}
		g.join(wiped)
		g.propose("after")
		all := g.machines[g.leader()].all()
		if all[0] != "accepted by the leader and one other" || all[len(all)-1] != "after" {
			t.Fatalf("in the log: %q", all)
		}
		g.same(all)
	})
}

// TestGate: what reaches a peer that joins, and when.
func TestGate(t *testing.T) {
	_, transport := raft.NewInmemTransport("p1")
	gate := newGate(transport)
	defer gate.Close()
	peer := &Peer{gate: gate}
	at := func(term uint64) []raft.RPC {
		return []raft.RPC{{Command: &raft.AppendEntriesRequest{Term: term}}, {Command: &raft.InstallSnapshotRequest{Term: term}}}
	}
	votes := []raft.RPC{{Command: &raft.RequestVoteRequest{Term: 99}}, {Command: &raft.RequestPreVoteRequest{Term: 99}}, {Command: &raft.TimeoutNowRequest{}}}
	check := func(when string, rpcs []raft.RPC, refused bool) {
		t.Helper()
		for _, rpc := range rpcs {
			if gate.refuses(rpc) != refused {
				t.Errorf("%s: %T refused is %v", when, rpc.Command, !refused)
			}
		}
	}
	check("closed", append(at(99), votes...), true)
	if err := peer.CatchUp(0); !errors.Is(err, ErrMember) {
		t.Errorf("to follow no term: %v", err)
	}
	if err := peer.CatchUp(7); err != nil {
		t.Fatal(err)
	}
	if err := peer.CatchUp(6); !errors.Is(err, ErrMember) {
		t.Errorf("to follow an earlier term: %v", err)
	}
	check("an earlier leader's log", at(6), true)
	check("the leader's log", at(7), false)
	check("a later leader's log", at(8), false)
	check("votes while catching up", votes, true)
	gate.admitted = true
	check("admitted", append(at(1), votes...), false)
}

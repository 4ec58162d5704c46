package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// inFakeTime runs a test in a bubble of its own time, which continues when all
// wait: elections take no time, and a machine that is slow elects nobody by
// chance.
func inFakeTime(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // a caller of a closed peer sees that
		test(t)
	})
}

// mesh is a network in memory between peers of one process.
type mesh struct {
	transports map[string]*raft.InmemTransport
	away       map[string]bool
}

// attach makes the transport of a peer, in place of a former one.
func (m *mesh) attach(name string) raft.Transport {
	_, transport := raft.NewInmemTransportWithTimeout(raft.ServerAddress(name), rpcLimit)
	m.transports[name] = transport
	m.connect()
	return transport
}

// connect joins all that are not away, and only these; each reaches itself.
func (m *mesh) connect() {
	for a, from := range m.transports {
		from.DisconnectAll()
		for b, to := range m.transports {
			if a == b || !m.away[a] && !m.away[b] {
				from.Connect(to.LocalAddr(), to)
			}
		}
	}
}

func (m *mesh) cut(name string)  { m.away[name] = true; m.connect() }
func (m *mesh) heal(name string) { delete(m.away, name); m.connect() }

// group is a cluster of peers on a mesh.
type group struct {
	t        testing.TB
	mesh     mesh
	dirs     map[string]string
	peers    map[string]*Peer
	machines map[string]*ledger
	change   []func(*Options)
}

func newGroup(t testing.TB, n int, change ...func(*Options)) *group {
	t.Helper()
	g := &group{t: t, dirs: make(map[string]string), peers: make(map[string]*Peer), machines: make(map[string]*ledger), change: change,
		mesh: mesh{transports: make(map[string]*raft.InmemTransport), away: make(map[string]bool)}}
	for i := range n {
		name := fmt.Sprintf("p%d", i+1)
		g.dirs[name] = t.TempDir()
		g.open(name, func(o *Options) { o.Join = i > 0 })
		if i == 0 {
			waitLeader(t, g.peers[name])
			continue
		}
		g.join(name)
	}
	return g
}

func (g *group) open(name string, change ...func(*Options)) {
	g.t.Helper()
	own := func(o *Options) {
		o.Name, o.ElectionTimeout = name, 500*time.Millisecond
		o.Transport = func() (raft.Transport, error) { return g.mesh.attach(name), nil }
	}
	peer, machine, err := tryOpen(g.dirs[name], append(append([]func(*Options){own}, g.change...), change...)...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = peer.Close() })
	g.peers[name], g.machines[name] = peer, machine
}

// reopen starts a stopped peer again, as one that was there before.
func (g *group) reopen(name string) {
	g.t.Helper()
	g.open(name, func(o *Options) { o.Existing = true })
}

func (g *group) close(name string) {
	g.t.Helper()
	if err := g.peers[name].Close(); err != nil {
		g.t.Fatal(err)
	}
	delete(g.peers, name)
	delete(g.mesh.transports, name)
	g.mesh.connect()
}

// join makes a peer that was opened to join a member that votes.
func (g *group) join(name string) {
	g.t.Helper()
	leader := g.peers[g.leader()]
	joining := g.peers[name]
	ctx := g.soon()
	if err := leader.AddNonvoter(ctx, name, name); err != nil {
		g.t.Fatal(err)
	}
	if err := joining.CatchUp(leader.Term()); err != nil {
		g.t.Fatal(err)
	}
	last := leader.LastIndex()
	g.eventually(name+" has caught up", func() bool { return joining.AppliedIndex() >= last })
	if err := joining.Admit(func() error { return nil }); err != nil {
		g.t.Fatal(err)
	}
	if err := leader.AddVoter(ctx, name, name); err != nil {
		g.t.Fatal(err)
	}
}

func (g *group) soon() context.Context {
	g.t.Helper()
	return prototest.Soon(g.t)
}

func (g *group) eventually(what string, so func() bool) {
	g.t.Helper()
	prototest.Eventually(g.t, what, so)
}

// leader waits for one that leads by the word of a majority.
func (g *group) leader() (name string) {
	g.t.Helper()
	g.eventually("a leader", func() bool {
		for _, candidate := range slices.Sorted(maps.Keys(g.peers)) {
			peer := g.peers[candidate]
			term := peer.Term()
			if peer.IsLeader() && peer.Barrier(10*time.Second) == nil && peer.Confirm(g.soon(), term) == nil {
				name = candidate
				return true
			}
		}
		return false
	})
	return name
}

// propose commits through whoever leads. Where the outcome is not known, the
// next leader knows it: no command may be proposed twice in a test.
func (g *group) propose(command string) {
	g.t.Helper()
	g.eventually(fmt.Sprintf("commit %.40s", command), func() bool {
		leader := g.leader()
		if slices.Contains(g.machines[leader].all(), command) {
			return true
		}
		_, err := g.peers[leader].Propose(g.soon(), []byte(command))
		if err != nil && !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrUncertain) {
			g.t.Fatal(err)
		}
		return err == nil
	})
}

func (g *group) same(want []string) {
	g.t.Helper()
	for name := range g.peers {
		deadline := time.Now().Add(prototest.Patience)
		for !slices.Equal(g.machines[name].all(), want) {
			if time.Now().After(deadline) {
				g.t.Fatalf("%s has\n%.40q\nand not\n%.40q", name, g.machines[name].all(), want)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func TestThreePeersGoOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		var want []string
		for round := range 3 {
			for i := range 5 {
				want = append(want, fmt.Sprintf("r%d.%d", round, i))
				g.propose(want[len(want)-1])
			}
			leader := g.leader()
			g.close(leader)
			want = append(want, fmt.Sprintf("r%d without %s", round, leader))
			g.propose(want[len(want)-1])
			g.reopen(leader)
			g.same(want)
		}
	})
}

// TestDivergedLogIsCut: what a cut-off leader wrote and nobody else has is
// taken away again, also from the chain of checksums on its disk.
func TestDivergedLogIsCut(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		want := []string{"before"}
		g.propose("before")
		former := g.leader()
		g.mesh.cut(former)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		lost := make(chan error, 20)
		for i := range cap(lost) {
			go func() {
				_, err := g.peers[former].Propose(ctx, fmt.Appendf(nil, "lost %d %s", i, strings.Repeat("x", 10_000)))
				lost <- err
			}()
		}
		for range cap(lost) {
			if err := <-lost; !errors.Is(err, ErrUncertain) && !errors.Is(err, ErrNotLeader) {
				t.Fatalf("a command that nobody else has: %v", err)
			}
		}
		if last := g.peers[former].LastIndex(); last < 10 {
			t.Fatalf("the cut-off leader wrote nothing: its log ends at %d", last)
		}
		cutOff := g.peers[former]
		delete(g.peers, former)
		for i := range 5 {
			want = append(want, fmt.Sprintf("meanwhile %d", i))
			g.propose(want[len(want)-1])
		}
		g.peers[former] = cutOff
		g.mesh.heal(former)
		g.same(want)
		for _, name := range slices.Sorted(maps.Keys(g.peers)) { // each log must be whole on disk
			g.close(name)
			g.reopen(name)
		}
		want = append(want, "after")
		g.propose("after")
		g.same(want)
	})
}

// TestFarBehindGetsSnapshot: what the log of the others does not hold any more
// comes as a snapshot, and is there after a restart.
func TestFarBehindGetsSnapshot(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3, func(o *Options) { o.KeepCommands, o.SnapshotEvery = 1, 1_000_000 })
		var want []string
		put := func(n int) {
			for range n {
				want = append(want, fmt.Sprintf("c%d", len(want)))
				g.propose(want[len(want)-1])
			}
		}
		put(5)
		away := slices.Sorted(maps.Keys(g.peers))[0]
		if away == g.leader() {
			away = slices.Sorted(maps.Keys(g.peers))[1]
		}
		g.close(away)
		put(30)
		for _, peer := range g.peers {
			if err := peer.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		put(3)
		g.reopen(away)
		g.same(want)
		if first, _ := g.peers[away].log.FirstIndex(); first < 20 {
			t.Fatalf("its log begins at %d: it got no snapshot", first)
		}
		g.close(away)
		g.reopen(away)
		put(3)
		g.same(want)
	})
}

// TestCutOffLeaderConfirmsNothing: from the moment the others can have elected
// another leader on, and before it knows of it itself.
func TestCutOffLeaderConfirmsNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		former := g.peers[g.leader()]
		term := former.Term()
		if err := former.Confirm(g.soon(), term); err != nil {
			t.Fatal(err)
		}
		g.mesh.cut(former.Name())
		if !former.IsLeader() {
			t.Log("it has noticed already, so this run shows less")
		}
		if err := former.Confirm(g.soon(), term); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("cut off: %v", err)
		}
		delete(g.peers, former.Name())
		g.leader()
		g.mesh.heal(former.Name())
		if err := former.Confirm(g.soon(), term); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("voted out: %v", err)
		}
	})
}

// TestConfirmIsAskedAfterwards: an answer to what was sent before Confirm was
// called does not count, however late it comes. raft's own VerifyLeader takes
// it.
func TestConfirmIsAskedAfterwards(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		peer := g.peers[g.leader()]
		slow := &slowTransport{Transport: peer.confirmer.transport, held: make(chan struct{}), release: make(chan struct{})}
		g.eventually("nobody is being asked", func() bool {
			peer.confirmer.mu.Lock()
			defer peer.confirmer.mu.Unlock()
			for _, asking := range peer.confirmer.asking {
				if asking {
					return false
				}
			}
			peer.confirmer.transport, peer.confirmer.limit = slow, 10*time.Second
			return true
		})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- peer.Confirm(g.soon(), peer.Term()) }()
		<-slow.held
		<-slow.held // both others were asked, and have not answered
		go func() { second <- peer.Confirm(g.soon(), peer.Term()) }()
		g.eventually("the second waits", func() bool {
			peer.confirmer.mu.Lock()
			defer peer.confirmer.mu.Unlock()
			return len(peer.confirmer.waiting) == 2
		})
		slow.release <- struct{}{}
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-second:
			t.Fatalf("an answer from before it asked served: %v", err)
		case <-slow.held: // it is asked for again
		}
		close(slow.release)
		if err := <-second; err != nil {
			t.Fatal(err)
		}
	})
}

// slowTransport holds each heartbeat of a confirmer after it was answered.
type slowTransport struct {
	raft.Transport
	held, release chan struct{}
}

func (s *slowTransport) AppendEntries(id raft.ServerID, to raft.ServerAddress, request *raft.AppendEntriesRequest, answer *raft.AppendEntriesResponse) error {
	err := s.Transport.AppendEntries(id, to, request, answer)
	select {
	case s.held <- struct{}{}:
	case <-s.release:
		return err
	}
	<-s.release
	return err
}

// TestConfirmOfEarlierTerm: a peer that lost the lead and has it again confirms
// for the new term only.
func TestConfirmOfEarlierTerm(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		g := newGroup(t, 3)
		first := g.leader()
		term := g.peers[first].Term()
		if err := g.peers[first].Transfer(g.soon(), "", ""); err != nil {
			t.Fatal(err)
		}
		g.eventually("another leads", func() bool { return g.leader() != first })
		if err := g.peers[g.leader()].Transfer(g.soon(), first, first); err != nil {
			t.Fatal(err)
		}
		g.eventually("the first leads again", func() bool { return g.leader() == first })
		if err := g.peers[first].Confirm(g.soon(), term); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("for the earlier term: %v", err)
		}
	})
}

func TestLonePeerConfirms(t *testing.T) {
	peer, _ := openPeer(t, t.TempDir())
	if err := peer.Confirm(context.Background(), peer.Term()); err != nil {
		t.Fatal(err)
	}
	if err := peer.Confirm(context.Background(), peer.Term()-1); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("for an earlier term: %v", err)
	}
}

// BenchmarkConfirm: what a read costs more than none, alone and as one of
// several peers, by how many ask at once.
func BenchmarkConfirm(b *testing.B) {
	for _, peers := range []int{1, 3} {
		g := newGroup(b, peers, func(o *Options) { o.ElectionTimeout = 2 * time.Second })
		leader := g.peers[g.leader()]
		for _, clients := range []int{1, 64} {
			b.Run(fmt.Sprintf("peers=%d/clients=%d", peers, clients), func(b *testing.B) {
				b.SetParallelism(clients)
				b.RunParallel(func(loop *testing.PB) {
					for loop.Next() {
						if err := leader.Confirm(context.Background(), leader.Term()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

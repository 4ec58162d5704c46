package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

var errUnknown = errors.New("unknown command")

// ledger is a Machine that remembers its commands in order.
type ledger struct {
	mu      sync.Mutex
	entries []string
}

func (l *ledger) Apply(_ uint64, command []byte) (any, error) {
	if strings.HasPrefix(string(command), "unknown") {
		return nil, errUnknown
	}
	if strings.HasPrefix(string(command), "refuse") {
		return nil, errors.New("refused")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, string(command))
	return len(l.entries), nil
}

func (l *ledger) Capture() Image {
	l.mu.Lock()
	defer l.mu.Unlock()
	return pages(append([]string(nil), l.entries...))
}

func (l *ledger) Restore(r io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
	return json.NewDecoder(r).Decode(&l.entries)
}

func (l *ledger) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.entries...)
}

type pages []string

func (p pages) Persist(w io.Writer) error { return json.NewEncoder(w).Encode([]string(p)) }

func openPeer(t testing.TB, dir string, change ...func(*Options)) (*Peer, *ledger) {
	t.Helper()
	peer, machine, err := tryOpen(dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	waitLeader(t, peer)
	return peer, machine
}

func tryOpen(dir string, change ...func(*Options)) (*Peer, *ledger, error) {
	machine := &ledger{}
	options := Options{Dir: dir, Name: "p1", Fatal: func(err error) bool { return errors.Is(err, errUnknown) }, ElectionTimeout: 50 * time.Millisecond}
	for _, f := range change {
		f(&options)
	}
	peer, err := Open(options, machine)
	return peer, machine, err
}

func waitLeader(t testing.TB, peer *Peer) {
	t.Helper()
	if leads := prototest.Receive(t, "a leader", peer.Leadership()); !leads {
		t.Fatal("lost leadership at once")
	}
	if err := peer.Barrier(prototest.Patience); err != nil {
		t.Fatal(err)
	}
}

func propose(t testing.TB, peer *Peer, command string) {
	t.Helper()
	if _, err := peer.Propose(context.Background(), []byte(command)); err != nil {
		t.Fatal(err)
	}
}

func TestProposeAndRestart(t *testing.T) {
	dir := t.TempDir()
	peer, _ := openPeer(t, dir)
	for i := range 10 {
		result, err := peer.Propose(context.Background(), fmt.Appendf(nil, "c%d", i))
		if err != nil || result != i+1 {
			t.Fatalf("command %d: %v, %v", i, result, err)
		}
	}
	if _, err := peer.Propose(context.Background(), []byte("refuse")); err == nil || err.Error() != "refused" {
		t.Fatalf("refused command: %v", err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	_, machine := openPeer(t, dir)
	if got := strings.Join(machine.all(), " "); got != "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9" {
		t.Fatalf("after restart: %s", got)
	}
}

func TestSnapshotAndRestart(t *testing.T) {
	dir := t.TempDir()
	few := func(o *Options) { o.KeepCommands = 1 }
	peer, _ := openPeer(t, dir, few)
	for round := range 4 {
		for i := range 5 {
			propose(t, peer, fmt.Sprintf("r%d.%d", round, i))
		}
		if err := peer.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	propose(t, peer, "after")
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	_, machine := openPeer(t, dir, few)
	if got := machine.all(); len(got) != 21 || got[20] != "after" || got[0] != "r0.0" {
		t.Fatalf("after restart: %v", got)
	}
}

func TestOneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	openPeer(t, dir)
	_, _, err := tryOpen(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Fatalf("second peer: %v", err)
	}
}

func TestForeignName(t *testing.T) {
	dir := t.TempDir()
	peer, _ := openPeer(t, dir)
	_ = peer.Close()
	_, _, err := tryOpen(dir, func(o *Options) { o.Name = "p2" })
	if err == nil || !strings.Contains(err.Error(), `"p1"`) {
		t.Fatalf("foreign name: %v", err)
	}
}

func TestFatalCommandStopsPeer(t *testing.T) {
	peer, machine := openPeer(t, t.TempDir())
	if _, err := peer.Propose(context.Background(), []byte("unknown")); !errors.Is(err, errUnknown) {
		t.Fatalf("unknown command: %v", err)
	}
	select {
	case <-peer.Failed():
	default:
		t.Fatal("peer continues after a fatal command")
	}
	if _, err := peer.Propose(context.Background(), []byte("later")); !errors.Is(err, errUnknown) {
		t.Fatalf("after failure: %v", err)
	}
	if len(machine.all()) != 0 {
		t.Fatalf("applied after failure: %v", machine.all())
	}
}

func TestUncertainWhenContextEnds(t *testing.T) {
	peer, _ := openPeer(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := peer.Propose(ctx, []byte("x")); err != nil && !errors.Is(err, ErrUncertain) {
		t.Fatalf("ended context: %v", err)
	}
}

// TestConcurrentProposalsShareWrites compares, in one run, commands proposed
// one after another with many proposed at once. What must hold is counted,
// pages written per command; the times depend on the machine and are printed.
func TestConcurrentProposalsShareWrites(t *testing.T) {
	peer, _ := openPeer(t, t.TempDir())
	written := func() int64 {
		stats := peer.log.store.Stats()
		return stats.TxStats.GetWrite()
	}
	const alone, together, clients = 200, 2000, 64
	start, before := time.Now(), written()
	for range alone {
		propose(t, peer, "alone")
	}
	one, onePages := time.Since(start)/alone, float64(written()-before)/alone
	start, before = time.Now(), written()
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for range together / clients {
				if _, err := peer.Propose(context.Background(), []byte("together")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	many, manyPages := time.Since(start)/together, float64(written()-before)/together
	t.Logf("alone %v and %.2f page writes each, of %d at once %v and %.2f: ratio %.1f", one, onePages, clients, many, manyPages, float64(one)/float64(many))
	if manyPages*2 > onePages {
		t.Errorf("commands proposed at once need %.2f page writes each, alone %.2f: they do not share writes", manyPages, onePages)
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, clients := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			peer, _ := openPeer(b, b.TempDir())
			b.SetParallelism(clients)
			b.RunParallel(func(loop *testing.PB) {
				for loop.Next() {
					if _, err := peer.Propose(context.Background(), []byte("command")); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// fakeTunnel joins two ends until it breaks; what is under way then is lost.
type fakeTunnel struct {
	ctx   context.Context
	toB   chan *pb.TunnelMessage
	toA   chan *pb.TunnelMessage
	left  int // messages until it breaks
	mu    sync.Mutex
	burst context.CancelFunc
}

func newFakeTunnel(t *testing.T, messages int) *fakeTunnel {
	ctx, cancel := context.WithCancel(t.Context())
	return &fakeTunnel{ctx: ctx, burst: cancel, left: messages, toA: make(chan *pb.TunnelMessage, 4), toB: make(chan *pb.TunnelMessage, 4)}
}

type fakeEnd struct {
	tunnel    *fakeTunnel
	from, to  chan *pb.TunnelMessage
	closeOnce sync.Once
}

func (f *fakeTunnel) ends() (a, b *fakeEnd) {
	return &fakeEnd{tunnel: f, from: f.toA, to: f.toB}, &fakeEnd{tunnel: f, from: f.toB, to: f.toA}
}

var errBroke = errors.New("the tunnel broke")

func (e *fakeEnd) Send(m *pb.TunnelMessage) error {
	e.tunnel.mu.Lock()
	e.tunnel.left--
	breaks := e.tunnel.left < 0
	e.tunnel.mu.Unlock()
	if breaks {
		e.tunnel.burst()
	}
	select {
	case e.to <- m:
		return nil
	case <-e.tunnel.ctx.Done():
		return errBroke
	}
}

func (e *fakeEnd) Recv() (*pb.TunnelMessage, error) {
	select {
	case <-e.tunnel.ctx.Done():
		return nil, errBroke
	case m, open := <-e.from:
		if !open {
			return nil, io.EOF
		}
		return m, nil
	}
}

func (e *fakeEnd) CloseSend() error { e.closeOnce.Do(func() { close(e.to) }); return nil }

// socketPair is a connection of which the step stream has one end and the test the
// other.
func socketPair(t *testing.T) (ours, test *net.UnixConn) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	must(t, err)
	defer listener.Close()
	dialled, err := net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr))
	must(t, err)
	accepted, err := listener.AcceptUnix()
	must(t, err)
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	must(t, accepted.SetDeadline(time.Now().Add(time.Minute)))
	return dialled, accepted
}

// TestStepStreamOutlivesItsTunnels: whatever is lost with tunnels that break, every
// byte and the end of both sides arrive, once and in order.
func TestStepStreamOutlivesItsTunnels(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			localA, testA := socketPair(t)
			localB, testB := socketPair(t)
			a, b := newStepStream(localA, keptLeast), newStepStream(localB, keptMost)
			go a.fill(true)
			go b.fill(false)
			words := map[*net.UnixConn][]byte{testA: make([]byte, random.IntN(2<<20)), testB: make([]byte, random.IntN(2<<20))}
			for _, text := range words {
				for i := range text {
					text[i] = byte(random.Uint32())
				}
			}
			var all sync.WaitGroup
			for from, to := range map[*net.UnixConn]*net.UnixConn{testA: testB, testB: testA} {
				all.Go(func() {
					_, err := from.Write(words[from])
					if err = errors.Join(err, from.CloseWrite()); err != nil {
						t.Errorf("write: %v", err)
					}
				})
				all.Go(func() {
					if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, words[from]) {
						t.Errorf("%d bytes arrived of %d, %v", len(got), len(words[from]), err)
					}
				})
			}
			breaks := 0
			for ; ; breaks++ {
				tunnel := newFakeTunnel(t, random.IntN(60))
				endA, endB := tunnel.ends()
				var both sync.WaitGroup
				both.Go(func() { _ = a.run(tunnel.ctx, endA); tunnel.close(a) })
				both.Go(func() { _ = b.run(tunnel.ctx, endB); tunnel.close(b) })
				both.Wait()
				overA, whyA, _ := a.over()
				overB, whyB, _ := b.over()
				if overA && overB {
					if whyA != nil || whyB != nil {
						t.Errorf("ended because %v and %v", whyA, whyB)
					}
					break
				}
				if overA != overB { // as a stream that one end has forgotten: see Join
					a.abandon()
					b.abandon()
				}
			}
			all.Wait()
			t.Logf("%d tunnels broke", breaks)
		})
	}
}

// close breaks the tunnel for the other end too, unless its end was in order.
func (f *fakeTunnel) close(l *stepStream) {
	if over, _, _ := l.over(); !over {
		f.burst()
	}
}

// TestStepStreamAbandoned: an end that is gone is told to the other, over the next
// tunnel if need be.
func TestStepStreamAbandoned(t *testing.T) {
	localA, _ := socketPair(t)
	localB, _ := socketPair(t)
	a, b := newStepStream(localA, keptLeast), newStepStream(localB, keptMost)
	a.end(errors.New("the step was killed"))
	tunnel := newFakeTunnel(t, 100)
	endA, endB := tunnel.ends()
	var both sync.WaitGroup
	both.Go(func() { _ = a.run(t.Context(), endA) })
	both.Go(func() { _ = b.run(t.Context(), endB); tunnel.burst() })
	both.Wait()
	if _, why, known := a.over(); why == nil || !known {
		t.Errorf("the end that is gone: %v, told %v", why, known)
	}
	if over, why, _ := b.over(); !over || !errors.Is(why, errAbandoned) {
		t.Errorf("the other end: over %v, %v", over, why)
	}
}

// TestStepStreamOfAStranger: counts that cannot be end the step stream.
func TestStepStreamOfAStranger(t *testing.T) {
	for _, messages := range [][]*pb.TunnelMessage{
		{{What: &pb.TunnelMessage_Data{Data: []byte("x")}}},
		{{What: &pb.TunnelMessage_Received{Received: 5}}},
		{{What: &pb.TunnelMessage_Received{}}, {What: &pb.TunnelMessage_Received{Received: 1 << 62}}},
	} {
		local, _ := socketPair(t)
		l := newStepStream(local, keptLeast)
		tunnel := newFakeTunnel(t, 100)
		end, stranger := tunnel.ends()
		for _, m := range messages {
			must(t, stranger.Send(m))
		}
		_ = l.run(t.Context(), end)
		if over, why, _ := l.over(); !over || why == nil {
			t.Errorf("%v: over %v, %v", messages, over, why)
		}
	}
}

// TestStepStreamToADeafEnd: input for a step that has just ended does not cost its
// last words.
func TestStepStreamToADeafEnd(t *testing.T) {
	localA, testA := socketPair(t)
	localB, testB := socketPair(t)
	a, b := newStepStream(localA, keptLeast), newStepStream(localB, keptMost)
	_, err := testB.Write([]byte("done"))
	must(t, err)
	must(t, testB.Close())
	go a.fill(true)
	go b.fill(false)
	_, err = testA.Write(bytes.Repeat([]byte("late input"), 1000))
	must(t, err)
	tunnel := newFakeTunnel(t, 1000)
	endA, endB := tunnel.ends()
	var both sync.WaitGroup
	both.Go(func() { _ = a.run(tunnel.ctx, endA) })
	both.Go(func() { _ = b.run(tunnel.ctx, endB) })
	if got, err := io.ReadAll(testA); err != nil || string(got) != "done" {
		t.Errorf("heard %q, %v", got, err)
	}
	must(t, testA.CloseWrite())
	both.Wait()
	if over, why, _ := a.over(); !over || why != nil {
		t.Errorf("over %v, %v", over, why)
	}
}

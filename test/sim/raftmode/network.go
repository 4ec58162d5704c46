package raftmode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// fabric is a network in memory between hosts that have names. A way between
// two hosts may be closed, also one way only: what is sent on it waits, as
// TCP's would, until the way is open again or the connection is given up.
type fabric struct {
	mu        sync.Mutex
	rng       *rand.Rand
	listeners map[string]*listener
	closed    map[[2]string]int
	conns     map[*half]struct{}          // one end of each connection
	delay     time.Duration               // at most
	extra     map[[2]string]time.Duration // added on one way
	delivered atomic.Uint64               // pieces that arrived
	stalled   atomic.Uint64               // of them, those that waited for a way to open
}

func newFabric(seed uint64) *fabric {
	return &fabric{rng: rand.New(rand.NewPCG(seed, 3)), listeners: map[string]*listener{}, closed: map[[2]string]int{}, extra: map[[2]string]time.Duration{}, conns: map[*half]struct{}{}, delay: 5 * time.Millisecond}
}

// host is one machine's view of it. It is a replica.Network.
type host struct {
	fabric *fabric
	name   string
}

func (f *fabric) host(name string) *host { return &host{f, name} }

// address is HOST:PORT, or a path of the host's own.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

type listener struct {
	fabric   *fabric
	key      string
	address  address
	accepted chan net.Conn
	done     chan struct{}
	once     sync.Once
}

func (h *host) Listen(network, at string) (net.Listener, error) {
	key := at
	if network == "unix" {
		key = h.name + ":" + at
	}
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	if h.fabric.listeners[key] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &listener{fabric: h.fabric, key: key, address: address(at), accepted: make(chan net.Conn), done: make(chan struct{})}
	h.fabric.listeners[key] = l
	return l, nil
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.fabric.mu.Lock()
		defer l.fabric.mu.Unlock()
		close(l.done)
		delete(l.fabric.listeners, l.key)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }

func (h *host) DialContext(ctx context.Context, _, at string) (net.Conn, error) {
	to, _, _ := strings.Cut(at, ":")
	if err := h.fabric.pass(ctx, h.name, to); err != nil {
		return nil, err
	}
	if err := h.fabric.pass(ctx, to, h.name); err != nil {
		return nil, err
	}
	h.fabric.mu.Lock()
	l := h.fabric.listeners[at]
	h.fabric.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", at, syscall.ECONNREFUSED)
	}
	here, there := h.fabric.connect(h.name, to)
	select {
	case l.accepted <- there:
		return here, nil
	case <-l.done:
		here.reset()
		return nil, fmt.Errorf("dial %s: %w", at, syscall.ECONNREFUSED)
	case <-ctx.Done():
		here.reset()
		return nil, ctx.Err()
	}
}

// pass waits until a way is open, and then as long as a piece takes.
func (f *fabric) pass(ctx context.Context, from, to string) error {
	for waited := false; ; waited = true {
		f.mu.Lock()
		open := f.closed[[2]string{from, to}] == 0
		wait := time.Duration(f.rng.Int64N(int64(f.delay)+1)) + f.extra[[2]string{from, to}]
		f.mu.Unlock()
		if !open {
			wait = 20 * time.Millisecond
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if open {
			f.delivered.Add(1)
			if waited {
				f.stalled.Add(1)
			}
			return nil
		}
	}
}

func (f *fabric) cut(from, to string, ways int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed[[2]string{from, to}] += ways
}

// slow adds a delay on one way, 0 = none.
func (f *fabric) slow(from, to string, extra time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.extra[[2]string{from, to}] = extra
}

func (f *fabric) setDelay(most time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delay = most
}

// reset breaks every connection of a host, as its crash does.
func (f *fabric) reset(name string) {
	f.mu.Lock()
	var broken []*half
	for c := range f.conns {
		if c.local == name || c.remote == name {
			broken = append(broken, c)
		}
	}
	f.mu.Unlock()
	for _, c := range broken {
		c.reset()
	}
}

// half is one end of a connection.
type half struct {
	net.Conn // what arrives here is read from it
	fabric   *fabric
	other    *half
	local    string
	remote   string
	into     net.Conn // where what is sent from here arrives
	sending  chan []byte
	ended    chan struct{}   // nothing more will be sent from here
	gone     context.Context // done when the connection is broken
	breaks   context.CancelFunc
	closing  sync.Once
	patience atomic.Int64 // until when a piece may wait to be taken, Unix ns; 0 = for ever
}

var errBroken = errors.New("connection reset by peer")

func (f *fabric) connect(from, to string) (here, there *half) {
	gone, breaks := context.WithCancel(context.Background())
	hereReads, thereWrites := net.Pipe()
	thereReads, hereWrites := net.Pipe()
	end := func(reads, writes net.Conn, local, remote string) *half {
		return &half{
			Conn: reads, fabric: f, local: local, remote: remote, into: writes,
			sending: make(chan []byte, 1024), ended: make(chan struct{}), gone: gone, breaks: breaks,
		}
	}
	here, there = end(hereReads, hereWrites, from, to), end(thereReads, thereWrites, to, from)
	here.other, there.other = there, here
	f.mu.Lock()
	f.conns[here] = struct{}{}
	f.mu.Unlock()
	go here.pump()
	go there.pump()
	return here, there
}

// pump carries what is sent from this end to the other.
func (h *half) pump() {
	defer h.into.Close()
	for {
		select {
		case <-h.gone.Done():
			return
		case piece := <-h.sending:
			if !h.carry(piece) {
				return
			}
		case <-h.ended:
			for {
				select {
				case piece := <-h.sending:
					if !h.carry(piece) {
						return
					}
				default:
					_ = h.fabric.pass(h.gone, h.local, h.remote)
					return
				}
			}
		}
	}
}

func (h *half) carry(piece []byte) bool {
	if h.fabric.pass(h.gone, h.local, h.remote) != nil {
		return false
	}
	_, err := h.into.Write(piece)
	return err == nil
}

// Write takes a piece; it waits only when very much is under way.
func (h *half) Write(piece []byte) (n int, err error) {
	select {
	case <-h.ended:
		return 0, net.ErrClosed
	default:
	}
	var late <-chan time.Time
	if until := h.patience.Load(); until != 0 {
		timer := time.NewTimer(time.Until(time.Unix(0, until)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case h.sending <- append([]byte(nil), piece...):
		return len(piece), nil
	case <-late:
		return 0, os.ErrDeadlineExceeded
	case <-h.ended:
		return 0, net.ErrClosed
	case <-h.gone.Done():
		return 0, errBroken
	}
}

// Read maps the end of the pipe to that of a connection.
func (h *half) Read(into []byte) (int, error) {
	n, err := h.Conn.Read(into)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed
	}
	return n, err
}

// Close ends this end; the other learns of it after all that was sent.
func (h *half) Close() error {
	h.closing.Do(func() {
		close(h.ended)
		_ = h.Conn.Close()
		h.forget()
	})
	return nil
}

// forget has a crash pass the connection by, once both ends are closed.
func (h *half) forget() {
	select {
	case <-h.other.ended:
	default:
		return
	}
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	delete(h.fabric.conns, h)
	delete(h.fabric.conns, h.other)
	h.breaks()
}

func (h *half) reset() {
	h.breaks()
	_ = h.Conn.Close()
	_ = h.other.Conn.Close()
	h.fabric.mu.Lock()
	defer h.fabric.mu.Unlock()
	delete(h.fabric.conns, h)
	delete(h.fabric.conns, h.other)
}

func (h *half) LocalAddr() net.Addr  { return address(h.local + ":0") }
func (h *half) RemoteAddr() net.Addr { return address(h.remote + ":0") }

// SetDeadline bounds reading, and the writing that begins after it was set.
func (h *half) SetDeadline(t time.Time) error {
	return errors.Join(h.SetReadDeadline(t), h.SetWriteDeadline(t))
}

// SetWriteDeadline bounds the writing that begins after it was set.
func (h *half) SetWriteDeadline(t time.Time) error {
	h.patience.Store(0)
	if !t.IsZero() {
		h.patience.Store(t.UnixNano())
	}
	return nil
}

// dialTCP is what a gRPC client dials with.
func (h *host) dialTCP(ctx context.Context, at string) (net.Conn, error) {
	return h.DialContext(ctx, "tcp", at)
}

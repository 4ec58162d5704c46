package raftmode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
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

// dialTCP is what a gRPC client dials with.
func (h *host) dialTCP(ctx context.Context, at string) (net.Conn, error) {
	return h.DialContext(ctx, "tcp", at)
}

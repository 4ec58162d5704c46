package wire

import (
	"errors"
	"os"
	"sync"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"
)

// outlet is what WireGuard takes for the interface of the job's network. The interface
// behind it comes and goes, and WireGuard keeps its port, its peers and the keys it has
// agreed on with them.
type outlet struct {
	events chan tun.Event

	mu     sync.Mutex
	change *sync.Cond
	behind tun.Device // nil = the link is cut
	mtu    int
	closed bool
}

func newOutlet(mtu int) *outlet {
	o := &outlet{events: make(chan tun.Event, 8), mtu: mtu}
	o.change = sync.NewCond(&o.mu)
	return o
}

// plug sets the interface, or nil, and answers the one before.
func (o *outlet) plug(behind tun.Device, mtu int) tun.Device {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.behind
	o.behind, o.mtu = behind, mtu
	if !o.closed && behind != nil {
		select {
		case o.events <- tun.EventMTUUpdate:
		default: // it is told of an earlier one, and asks then
		}
	}
	o.change.Broadcast()
	return before
}

// present is the interface that is there now; nil when there is none.
func (o *outlet) present() tun.Device {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.behind
}

// Read implements tun.Device. It waits while the link is cut.
func (o *outlet) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	for {
		o.mu.Lock()
		for o.behind == nil && !o.closed {
			o.change.Wait()
		}
		behind, closed := o.behind, o.closed
		o.mu.Unlock()
		if closed {
			return 0, os.ErrClosed
		}
		n, err := behind.Read(bufs, sizes, offset)
		if err == nil || errors.Is(err, tun.ErrTooManySegments) {
			return n, err
		}
		o.mu.Lock()
		if o.behind == behind { // it went by itself, with the namespace
			o.behind = nil
		}
		o.mu.Unlock()
	}
}

// Write implements tun.Device. While the link is cut, packets vanish.
func (o *outlet) Write(bufs [][]byte, offset int) (int, error) {
	if behind := o.present(); behind != nil {
		if n, err := behind.Write(bufs, offset); err == nil {
			return n, nil
		}
	}
	return len(bufs), nil
}

// MTU implements tun.Device.
func (o *outlet) MTU() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mtu, nil
}

// Close implements tun.Device.
func (o *outlet) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	close(o.events)
	o.change.Broadcast()
	if o.behind != nil {
		return o.behind.Close()
	}
	return nil
}

// File implements tun.Device: there is none.
func (o *outlet) File() *os.File { return nil }

// Name implements tun.Device.
func (o *outlet) Name() (string, error) { return "gang", nil }

// Events implements tun.Device.
func (o *outlet) Events() <-chan tun.Event { return o.events }

// BatchSize implements tun.Device.
func (o *outlet) BatchSize() int { return conn.IdealBatchSize }

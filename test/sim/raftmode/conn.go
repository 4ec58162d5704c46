package raftmode

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

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

package api

import (
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// This file parts the connections of nodes, and of root on the controller's host, from those
// of users. A node says in one message what all of its jobs are and what it holds; a user's
// messages are small (spec.MaxPieceBytes). gRPC has one bound for a server: so there are two
// of them, and what has shown who it is goes to its own.

// Trusted answers the listener of those connections. Until it is called, all stay together.
func (c *ServerCredentials) Trusted() net.Listener {
	c.trusted = &trustedListener{arrived: make(chan *trustedConn), closed: make(chan struct{})}
	return c.trusted
}

// trustedConn is a connection that has shown who it is.
type trustedConn struct {
	net.Conn
	info credentials.AuthInfo

	mu   sync.Mutex
	late *time.Timer
}

// NetConn is the connection itself, for questions to the kernel.
func (t *trustedConn) NetConn() net.Conn { return t.Conn }

// SetDeadline implements net.Conn for the server that has it now, until that has its greeting.
// The one that handed it over takes back a deadline of its own meanwhile, so this is another.
func (t *trustedConn) SetDeadline(end time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.late != nil {
		t.late.Stop()
	}
	if !end.IsZero() {
		t.late = time.AfterFunc(time.Until(end), func() { _ = t.Close() })
	}
	return nil
}

// isTrusted says whether somebody's messages may be large.
func isTrusted(info credentials.AuthInfo) bool {
	switch shown := info.(type) {
	case peerInfo:
		return shown.uid == 0 || int(shown.uid) == os.Geteuid()
	case tlsInfo:
		return isNode(shown.TLSInfo)
	}
	return false
}

// trustedListener gives out what others have accepted.
type trustedListener struct {
	arrived chan *trustedConn
	closed  chan struct{}
	once    sync.Once
}

// hand gives a connection to whoever serves the listener.
func (l *trustedListener) hand(conn *trustedConn) error {
	select {
	case l.arrived <- conn:
		return credentials.ErrConnDispatched
	case <-l.closed:
		return net.ErrClosed
	}
}

// Accept implements net.Listener.
func (l *trustedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arrived:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *trustedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *trustedListener) Addr() net.Addr { return trustedAddr{} }

type trustedAddr struct{}

func (trustedAddr) Network() string { return "handed over" }
func (trustedAddr) String() string  { return "nodes and root" }

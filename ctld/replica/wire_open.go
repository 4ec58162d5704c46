package replica

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
)

// openConns are the connections with other controllers on which certificates
// were shown, both ways.
type openConns struct {
	mu   sync.Mutex
	open map[*notedConn]*tls.Conn
	over chan struct{} // of one place: a connection has been closed
}

// notedConn is the connection below TLS.
type notedConn struct {
	net.Conn
	conns *openConns
}

// Close implements net.Conn.
func (n *notedConn) Close() error {
	n.conns.mu.Lock()
	_, kept := n.conns.open[n]
	delete(n.conns.open, n)
	n.conns.mu.Unlock()
	if kept {
		select {
		case n.conns.over <- struct{}{}:
		default:
		}
	}
	return n.Conn.Close()
}

// note secures a connection and keeps it until it is closed. secure returns nil
// if that failed; then nothing is kept.
func (o *openConns) note(plain net.Conn, secure func(net.Conn) *tls.Conn) *tls.Conn {
	noted := &notedConn{plain, o}
	secured := secure(noted)
	if secured == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open[noted] = secured
	return secured
}

// Over tells that connections with other controllers have been closed, by either end. One
// word may stand for several.
func (w *Wire) Over() <-chan struct{} { return w.open.over }

// Cut closes the connections on which a certificate was shown that is no longer
// good.
func (w *Wire) Cut(bad func(*x509.Certificate) bool) (cut int) {
	var closing []*notedConn
	w.open.mu.Lock()
	for noted, secured := range w.open.open {
		if shown := secured.ConnectionState().PeerCertificates; len(shown) > 0 && bad(shown[0]) {
			closing = append(closing, noted)
		}
	}
	w.open.mu.Unlock()
	for _, noted := range closing {
		_ = noted.Close()
	}
	return len(closing)
}

package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// maxConnectionsPerUser bounds what one user may hold open on the unix socket,
// so that nobody takes every descriptor of the controller. Root has no such
// bound: the nodes' daemons and supervisors connect as root.
const maxConnectionsPerUser = 512

// maxHandshakes bounds the connections over TCP that have not yet shown a
// certificate: anybody can make those.
const maxHandshakes = 512

// Credentials identify the other end: by the kernel on a unix socket, by a
// certificate on anything else, or by munge (AcceptMunge). tls may be nil when only
// unix sockets are served.
func Credentials(tls *tls.Config) *ServerCredentials {
	return &ServerCredentials{tls: tls}
}

// peerInfo is the kernel's word: the process that connected.
type peerInfo struct {
	credentials.CommonAuthInfo
	uid, gid uint32
	pid      int32
	person   string // the user it counts for, "" = root
	conn     net.Conn
}

// AuthType names the kind of proof.
func (peerInfo) AuthType() string { return "unix" }

func (p peerInfo) close() { _ = p.conn.Close() }

// tlsInfo is a certificate, and the connection it was shown on.
type tlsInfo struct {
	credentials.TLSInfo
	person string // the user it counts for, "" = not a user
	conn   net.Conn
}

func (t tlsInfo) close() { _ = t.conn.Close() }

// ServerCredentials identify the other end of each connection.
type ServerCredentials struct {
	tls        *tls.Config
	open       places           // connections by user
	handshakes places           // under way, all under one name
	munge      *mungeDoor       // nil = certificates only
	trusted    *trustedListener // of nodes and root; nil = they are served with the others

	mu    sync.Mutex
	shown map[net.Conn]*x509.Certificate // on connections that are open
}

func (c *ServerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if known, is := conn.(*trustedConn); is {
		return known.Conn, known.info, nil
	}
	counted, info, err := c.identify(conn)
	if err != nil || c.trusted == nil || !isTrusted(info) {
		return counted, info, err
	}
	if err := c.trusted.hand(&trustedConn{Conn: counted, info: info}); err != credentials.ErrConnDispatched {
		return nil, nil, errors.Join(err, counted.Close())
	}
	return nil, nil, credentials.ErrConnDispatched
}

// identify finds who is at the other end.
func (c *ServerCredentials) identify(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := bare(conn).(*net.UnixConn)
	if !ok {
		return c.handshake(conn)
	}
	info, err := peerOf(local)
	if err != nil {
		return nil, nil, err
	}
	info.person = personOf(info.uid)
	counted, err := c.count(conn, info.person)
	info.conn = conn
	return counted, info, err
}

// bare is a connection without the wrappers of a listener.
func bare(conn net.Conn) net.Conn {
	if around, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return around.NetConn()
	}
	return conn
}

// handshake is the TLS handshake.
func (c *ServerCredentials) handshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if c.tls == nil {
		return nil, nil, errors.New("only unix sockets are served")
	}
	release, ok := c.handshakes.take("", maxHandshakes)
	if !ok {
		refusals.WithLabelValues(boundHandshakes).Inc()
		return nil, nil, fmt.Errorf("%d connections have shown no certificate yet", maxHandshakes)
	}
	defer release()
	secured, info, err := credentials.NewTLS(c.tls).ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	proof, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, nil, fmt.Errorf("TLS answered %T", info)
	}
	if len(proof.State.PeerCertificates) == 0 {
		release() // who has a certificate does not wait for who has none
		return c.withoutCertificate(conn, secured, &proof.State)
	}
	person := certified(proof)
	counted, err := c.count(c.note(secured, proof), person)
	return counted, tlsInfo{proof, person, conn}, err
}

// note remembers, until a connection is closed, the certificate that was shown
// on it.
func (c *ServerCredentials) note(conn net.Conn, proof credentials.TLSInfo) net.Conn {
	if len(proof.State.PeerCertificates) == 0 {
		return conn
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown == nil {
		c.shown = make(map[net.Conn]*x509.Certificate)
	}
	c.shown[conn] = proof.State.PeerCertificates[0]
	return &countedConn{Conn: conn, done: func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.shown, conn)
	}}
}

// Cut closes the connections on which a certificate was shown that is no longer
// good.
func (c *ServerCredentials) Cut(bad func(*x509.Certificate) bool) (cut int) {
	var closing []net.Conn
	c.mu.Lock()
	for conn, shown := range c.shown {
		if bad(shown) {
			closing = append(closing, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range closing {
		_ = bare(rawOf(conn)).Close() // at once: a peer that does not read delays nobody
	}
	return len(closing)
}

// rawOf is the connection below TLS.
func rawOf(conn net.Conn) net.Conn {
	if around, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return around.NetConn()
	}
	return conn
}

// count takes one of the places for connections that a user has.
func (c *ServerCredentials) count(conn net.Conn, user string) (net.Conn, error) {
	if user == "" {
		return conn, nil
	}
	release, ok := c.open.take(user, maxConnectionsPerUser)
	if !ok {
		refusals.WithLabelValues(boundConnections).Inc()
		return nil, fmt.Errorf("%s has %d connections open already", user, maxConnectionsPerUser)
	}
	return &countedConn{Conn: conn, done: release}, nil
}

// countedConn frees its place when it is closed.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}

// peerOf is the process that connected.
func peerOf(conn *net.UnixConn) (peerInfo, error) {
	found, err := dial.PeerOf(conn)
	if err != nil {
		return peerInfo{}, err
	}
	return peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		uid:            found.Uid, gid: found.Gid, pid: found.Pid,
	}, nil
}

func (c *ServerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers only")
}

func (c *ServerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "gleaner"}
}

// Clone returns the same: the count of connections is shared.
func (c *ServerCredentials) Clone() credentials.TransportCredentials { return c }

func (c *ServerCredentials) OverrideServerName(string) error {
	return errors.New("these credentials are for servers only")
}

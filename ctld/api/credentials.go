package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// maxConnectionsPerUser bounds what one user may hold open on the unix
// socket, so that nobody takes every descriptor of the controller. Root, as
// whom the nodes' daemons and supervisors come, has no such bound.
const maxConnectionsPerUser = 512

// maxHandshakes bounds the connections over TCP that have not yet shown a
// certificate: anybody can make those.
const maxHandshakes = 512

// Credentials tell who is at the other end: the kernel's word on a unix
// socket, a certificate on anything else. tls may be nil when only unix
// sockets are served.
func Credentials(tls *tls.Config) credentials.TransportCredentials {
	return &serverCredentials{tls: tls}
}

// peerInfo is the kernel's word: the process that connected.
type peerInfo struct {
	credentials.CommonAuthInfo
	uid, gid uint32
	pid      int32
	conn     net.Conn
}

// AuthType names the kind of proof.
func (peerInfo) AuthType() string { return "unix" }

func (p peerInfo) close() { _ = p.conn.Close() }

// tlsInfo is a certificate, and the connection it was shown on.
type tlsInfo struct {
	credentials.TLSInfo
	conn net.Conn
}

func (t tlsInfo) close() { _ = t.conn.Close() }

type serverCredentials struct {
	tls        *tls.Config
	open       places // connections by user
	handshakes places // under way, all under one name
}

func (c *serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := bare(conn).(*net.UnixConn)
	if !ok {
		return c.handshake(conn)
	}
	info, err := peerOf(local)
	if err != nil {
		return nil, nil, err
	}
	counted, err := c.count(conn, info.user())
	info.conn = conn
	return counted, info, err
}

// bare is a connection without what a listener put around it.
func bare(conn net.Conn) net.Conn {
	if around, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return around.NetConn()
	}
	return conn
}

// handshake is that of TLS.
func (c *serverCredentials) handshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
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
	counted, err := c.count(secured, certificateUser(proof))
	return counted, tlsInfo{proof, conn}, err
}

// count takes one of the places for connections that a user has.
func (c *serverCredentials) count(conn net.Conn, user string) (net.Conn, error) {
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

// countedConn gives its place free when it is closed.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}

// peerOf asks the kernel who connected (socket(7), SO_PEERCRED).
func peerOf(conn *net.UnixConn) (peerInfo, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peerInfo{}, err
	}
	var found *unix.Ucred
	var failure error
	if err := raw.Control(func(descriptor uintptr) {
		found, failure = unix.GetsockoptUcred(int(descriptor), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peerInfo{}, err
	}
	if failure != nil {
		return peerInfo{}, fmt.Errorf("ask the kernel who connected: %w", failure)
	}
	return peerInfo{
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		uid:            found.Uid, gid: found.Gid, pid: found.Pid,
	}, nil
}

func (c *serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers only")
}

func (c *serverCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "gleaner"}
}

// Clone returns the same: the count of connections is shared.
func (c *serverCredentials) Clone() credentials.TransportCredentials { return c }

func (c *serverCredentials) OverrideServerName(string) error {
	return errors.New("these credentials are for servers only")
}

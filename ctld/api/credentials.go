package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
)

// maxConnectionsPerUser bounds what one user may hold open on the unix
// socket, so that nobody takes every descriptor of the controller. Root, as
// whom the nodes' daemons and supervisors come, has no such bound.
const maxConnectionsPerUser = 512

// Credentials tell who is at the other end: the kernel's word on a unix
// socket, a certificate on anything else. tls may be nil when only unix
// sockets are served.
func Credentials(tls *tls.Config) credentials.TransportCredentials {
	return &serverCredentials{tls: tls, open: make(map[uint32]int)}
}

// peerInfo is the kernel's word: the process that connected.
type peerInfo struct {
	credentials.CommonAuthInfo
	uid, gid uint32
	pid      int32
}

// AuthType names the kind of proof.
func (peerInfo) AuthType() string { return "unix" }

type serverCredentials struct {
	tls *tls.Config

	mu   sync.Mutex
	open map[uint32]int // connections by uid
}

func (c *serverCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		if c.tls == nil {
			return nil, nil, errors.New("only unix sockets are served")
		}
		return credentials.NewTLS(c.tls).ServerHandshake(conn)
	}
	info, err := peerOf(local)
	if err != nil {
		return nil, nil, err
	}
	if info.uid == 0 {
		return conn, info, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[info.uid] >= maxConnectionsPerUser {
		return nil, nil, fmt.Errorf("user %d has %d connections open already", info.uid, maxConnectionsPerUser)
	}
	c.open[info.uid]++
	return &countedConn{Conn: conn, done: func() { c.closed(info.uid) }}, info, nil
}

func (c *serverCredentials) closed(uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[uid]--; c.open[uid] <= 0 {
		delete(c.open, uid)
	}
}

// countedConn gives its place free once.
type countedConn struct {
	net.Conn
	once sync.Once
	done func()
}

func (c *countedConn) Close() error {
	c.once.Do(c.done)
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

package noded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"strconv"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// This file says who calls on the owner's socket.

const (
	// maxOwnerConnections bounds the connections of one user, so that none keeps the
	// owner out.
	maxOwnerConnections = 8
	// maxOwnerUsers bounds the users that have any.
	maxOwnerUsers = 128
)

// peerInfo is the process that connected, by the kernel's word.
type peerInfo struct {
	credentials.CommonAuthInfo
	uid uint32
	pid int32
}

func (peerInfo) AuthType() string { return "unix" }

// peerCredentials asks the kernel who connects.
type peerCredentials struct {
	mu   sync.Mutex
	open map[uint32]int // connections by user
}

func newPeerCredentials() *peerCredentials { return &peerCredentials{open: map[uint32]int{}} }

// ServerHandshake implements credentials.TransportCredentials.
func (c *peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("only unix sockets are served")
	}
	found, err := dial.PeerOf(local)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[found.Uid] >= maxOwnerConnections || found.Uid != 0 && c.open[found.Uid] == 0 && len(c.open) >= maxOwnerUsers {
		return nil, nil, fmt.Errorf("user %d has %d connections open already", found.Uid, c.open[found.Uid])
	}
	c.open[found.Uid]++
	info := peerInfo{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, uid: found.Uid, pid: found.Pid}
	return &countedConn{Conn: conn, done: sync.OnceFunc(func() { c.closed(found.Uid) })}, info, nil
}

func (c *peerCredentials) closed(uid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[uid]--; c.open[uid] == 0 {
		delete(c.open, uid)
	}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("this end serves")
}

// Info implements credentials.TransportCredentials.
func (c *peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

// Clone implements credentials.TransportCredentials.
func (c *peerCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (c *peerCredentials) OverrideServerName(string) error { return nil }

// countedConn frees its place when it is closed.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	c.done()
	return c.Conn.Close()
}

// accountName is this machine's name for a user, if that name is the user's number, too;
// "" = it has none, or its name service does not answer in time.
func accountName(ctx context.Context, uid uint32) string {
	ctx, cancel := context.WithTimeout(ctx, nameDeadline)
	defer cancel()
	answer := make(chan string, 1)
	go func() {
		number := strconv.FormatUint(uint64(uid), 10)
		found, err := user.LookupId(number)
		if err != nil {
			answer <- ""
			return
		}
		if back, err := user.Lookup(found.Username); err != nil || back.Uid != number {
			answer <- ""
			return
		}
		answer <- found.Username
	}()
	select {
	case name := <-answer:
		return name
	case <-ctx.Done():
		return ""
	}
}

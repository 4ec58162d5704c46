package login

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/gleaner-hpc/gleaner/proto/dial"
)

// caller is the kernel's word: the user of the process that connected, at that moment.
type caller struct {
	credentials.CommonAuthInfo
	uid uint32
}

// AuthType names the kind of proof.
func (caller) AuthType() string { return "unix" }

// credentialsOf ask the kernel about each connection.
type credentialsOf struct{ agent *Agent }

func (c *credentialsOf) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.New("only unix sockets are served")
	}
	found, err := dial.PeerOf(local)
	if err != nil {
		return nil, nil, err
	}
	release, err := c.agent.connected(found.Uid)
	if err != nil {
		return nil, nil, err
	}
	info := caller{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, found.Uid}
	return &counted{Conn: conn, done: sync.OnceFunc(release)}, info, nil
}

// counted frees its place when it is closed.
type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}

func (c *credentialsOf) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for servers only")
}

func (c *credentialsOf) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "gleaner"}
}

// Clone returns the same: the count of connections is shared.
func (c *credentialsOf) Clone() credentials.TransportCredentials { return c }

func (c *credentialsOf) OverrideServerName(string) error {
	return errors.New("these credentials are for servers only")
}

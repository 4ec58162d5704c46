package login

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// plain are the credentials of a client on a connection that it has already.
type plain struct{}

func (plain) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, nil, nil
}
func (plain) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, nil, nil
}
func (plain) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "plain"}
}
func (plain) Clone() credentials.TransportCredentials { return plain{} }
func (plain) OverrideServerName(string) error         { return nil }

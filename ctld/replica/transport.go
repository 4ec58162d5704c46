package replica

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// ListenTLS makes a transport between peers: TCP, both ends showing a
// certificate. The two configurations must accept controllers' certificates
// only; advertise is the address the other peers dial, "" = the listener's.
func ListenTLS(listen, advertise string, server, client *tls.Config, logger *slog.Logger) (raft.Transport, error) {
	listener, err := tls.Listen("tcp", listen, server)
	if err != nil {
		return nil, fmt.Errorf("listen for peers on %s: %w", listen, err)
	}
	layer := &streamLayer{Listener: listener, client: client, address: listener.Addr()}
	if advertise != "" {
		layer.address = peerAddress(advertise)
	}
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: 3, Timeout: 10 * time.Second, Logger: bridge(logger),
	}), nil
}

// streamLayer is raft's view of the network.
type streamLayer struct {
	net.Listener
	client  *tls.Config
	address net.Addr
}

func (s *streamLayer) Addr() net.Addr { return s.address }

func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, "tcp", string(address), s.client)
}

// peerAddress is an address by host name, which net.TCPAddr can not hold.
type peerAddress string

func (peerAddress) Network() string  { return "tcp" }
func (a peerAddress) String() string { return string(a) }

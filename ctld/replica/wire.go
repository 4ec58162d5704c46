package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// The protocols on the address for other controllers, told apart by TLS's ALPN
// (RFC 7301).
const (
	ProtocolRaft     = "gleaner-raft"
	ProtocolRequests = "h2"
)

// Bounds of connections that have not shown a certificate yet: anybody can make
// those.
const (
	maxHandshakes  = 512
	handshakeLimit = 5 * time.Second
)

// rpcLimit is how long another peer has for one answer of raft's.
const rpcLimit = 10 * time.Second

// Wire is one address for the other controllers: TCP, both ends showing a
// certificate, with raft's streams and gRPC requests on it.
type Wire struct {
	listener net.Listener
	network  Network
	client   *tls.Config
	address  net.Addr
	raft     *share
	requests *share
	serving  atomic.Bool   // somebody takes the requests
	places   chan struct{} // of handshakes under way
	open     openConns
	done     chan struct{}
	closing  sync.Once
}

// Listen opens the address in a network. The two configurations must accept controllers'
// certificates only; advertise is the address that the other peers dial, "" =
// the listener's.
func Listen(network Network, listen, advertise string, server, client *tls.Config) (*Wire, error) {
	listener, err := network.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("listen for peers on %s: %w", listen, err)
	}
	server, client = server.Clone(), client.Clone()
	server.NextProtos, client.NextProtos = []string{ProtocolRaft, ProtocolRequests}, []string{ProtocolRaft}
	w := &Wire{
		listener: listener, network: network, client: client, address: listener.Addr(),
		places: make(chan struct{}, maxHandshakes), done: make(chan struct{}),
		open: openConns{open: make(map[*notedConn]*tls.Conn), over: make(chan struct{}, 1)},
	}
	if advertise != "" {
		w.address = peerAddress(advertise)
	}
	w.raft, w.requests = newShare(w), newShare(w)
	early := server.Clone()
	early.NextProtos = []string{ProtocolRaft}
	server.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if w.serving.Load() {
			return nil, nil // this one
		}
		return early, nil
	}
	go w.accept(server)
	return w, nil
}

// Transport is raft's way to the other peers. Closing it closes the wire.
func (w *Wire) Transport(logger *slog.Logger) raft.Transport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: streamLayer{w.raft}, MaxPool: 4, Timeout: rpcLimit, Logger: bridge(logger),
	})
}

// Requests delivers the connections that other controllers use for requests.
// Their handshake is over. Before it is called they are refused: see NotServing.
func (w *Wire) Requests() net.Listener {
	w.serving.Store(true)
	return w.requests
}

// NotServing reports whether a handshake for requests failed because the controller there
// has not come so far since its start: it speaks only raft's protocol yet.
func NotServing(handshake error) bool {
	const noApplicationProtocol = tls.AlertError(120) // RFC 7301, section 3.2
	remote, ok := errors.AsType[*net.OpError](handshake)
	return ok && remote.Op == "remote error" && remote.Err.Error() == noApplicationProtocol.Error()
}

// Close stops listening.
func (w *Wire) Close() (err error) {
	w.closing.Do(func() {
		close(w.done)
		err = w.listener.Close()
	})
	return err
}

// accept hands each connection to a separate handshake: one that stalls delays
// nobody.
func (w *Wire) accept(server *tls.Config) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			select {
			case <-w.done:
				return
			case <-time.After(10 * time.Millisecond): // out of descriptors, for one
				continue
			}
		}
		select {
		case w.places <- struct{}{}:
			go func() {
				secured := w.open.note(conn, func(noted net.Conn) *tls.Conn { return handshake(tls.Server(noted, server)) })
				<-w.places
				if secured != nil {
					w.deliver(secured)
				}
			}()
		default:
			_ = conn.Close()
		}
	}
}

// handshake returns nil when the other end is no controller.
func handshake(conn *tls.Conn) *tls.Conn {
	if conn.SetDeadline(time.Now().Add(handshakeLimit)) != nil || conn.Handshake() != nil || conn.SetDeadline(time.Time{}) != nil {
		_ = conn.Close()
		return nil
	}
	return conn
}

func (w *Wire) deliver(conn *tls.Conn) {
	to := w.requests
	switch conn.ConnectionState().NegotiatedProtocol {
	case ProtocolRaft:
		to = w.raft
	case ProtocolRequests:
	default:
		_ = conn.Close()
		return
	}
	select {
	case to.accepted <- conn:
	case <-to.done:
		_ = conn.Close()
	case <-w.done:
		_ = conn.Close()
	}
}

// share is those of a wire's connections that speak one protocol.
type share struct {
	wire     *Wire
	accepted chan net.Conn
	done     chan struct{}
	closing  sync.Once
}

func newShare(w *Wire) *share {
	return &share{wire: w, accepted: make(chan net.Conn), done: make(chan struct{})}
}

func (s *share) Accept() (net.Conn, error) {
	select {
	case conn := <-s.accepted:
		return conn, nil
	case <-s.done:
	case <-s.wire.done:
	}
	return nil, fmt.Errorf("peers' address %s: %w", s.wire.address, net.ErrClosed)
}

// Close ends this share only, since errors would be lost on the way.
func (s *share) Close() error {
	s.closing.Do(func() { close(s.done) })
	return nil
}

func (s *share) Addr() net.Addr { return s.wire.address }

// streamLayer is raft's view of the network.
type streamLayer struct {
	*share
}

func (s streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	plain, err := s.wire.network.DialContext(ctx, "tcp", string(address))
	if err != nil {
		return nil, err
	}
	conn := s.wire.open.note(plain, func(noted net.Conn) *tls.Conn {
		conn := tls.Client(noted, s.wire.client)
		if err = conn.HandshakeContext(ctx); err != nil {
			return nil
		}
		return conn
	})
	if conn == nil {
		return nil, errors.Join(err, plain.Close())
	}
	if conn.ConnectionState().NegotiatedProtocol != ProtocolRaft {
		return nil, errors.Join(fmt.Errorf("%s does not speak %s: it is not a controller's address for peers", address, ProtocolRaft), conn.Close())
	}
	return conn, nil
}

// Close closes the wire: the peer is being stopped.
func (s streamLayer) Close() error { return errors.Join(s.share.Close(), s.wire.Close()) }

// peerAddress is an address by host name, which net.TCPAddr cannot hold.
type peerAddress string

func (peerAddress) Network() string  { return "tcp" }
func (a peerAddress) String() string { return string(a) }

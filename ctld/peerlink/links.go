// Package peerlink is one controller's dealings with the others: the
// connections on which requests are passed on, who the members are, and how a
// new one becomes one.
//
// Contract: a connection is to the intended controller, by name and
// certificate, or there is none. Only the leader changes the members, one at a
// time, and never so that those that answer are too few to continue, unless
// forced. A controller that joins gets a vote only once it has all that was
// accepted before; until then its word counts for nothing. Errors are gRPC
// statuses, with what to do.
package peerlink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Lane is one of the connections to another controller: urgent messages do not
// queue behind large ones.
type Lane int

// Lanes.
const (
	Control Lane = iota // requests, node sessions
	Bulk                // tunnels, snapshots
)

// links are the connections to other controllers, made when first needed.
type links struct {
	tls     *tls.Config // of a client; nil when no other can be reached
	network replica.Network

	mu   sync.Mutex
	open map[linkKey]link
}

type linkKey struct {
	name string
	lane Lane
}

type link struct {
	address string
	conn    *grpc.ClientConn
}

var errAlone = errors.New("this controller has no address for others: set peer_listen and start it again")

// to is the connection to a controller. It dials nobody yet.
func (l *links) to(name, address string, lane Lane) (*grpc.ClientConn, error) {
	if l.tls == nil {
		return nil, errAlone
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := linkKey{name, lane}
	if former, found := l.open[key]; found {
		if former.address == address {
			return former.conn, nil
		}
		_ = former.conn.Close()
		delete(l.open, key)
	}
	conn, err := dialPeer(l.network, name, address, l.tls)
	if err != nil {
		return nil, fmt.Errorf("controller %s at %s: %w", name, address, err)
	}
	if l.open == nil {
		l.open = make(map[linkKey]link)
	}
	l.open[key] = link{address, conn}
	return conn, nil
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, link := range l.open {
		_ = link.conn.Close()
		delete(l.open, key)
	}
}

func dialPeer(network replica.Network, name, address string, base *tls.Config) (*grpc.ClientConn, error) {
	config := base.Clone()
	config.NextProtos = []string{replica.ProtocolRequests}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if base.VerifyConnection != nil {
			if err := base.VerifyConnection(state); err != nil {
				return err
			}
		}
		if _, other, _ := pki.Holder(state.PeerCertificates[0]); other != name {
			return fmt.Errorf("the controller there is %s, not %s", other, name)
		}
		return nil
	}
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return network.DialContext(ctx, "tcp", address)
		}),
		grpc.WithAuthority(dial.ServerName),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(spec.MaxMessageBytes), grpc.MaxCallSendMsgSize(spec.MaxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 250 * time.Millisecond}, // there are few, and who waits is a user
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
	)
}

package replica

import (
	"context"
	"net"
)

// Network is where a controller listens and dials. A simulation gives it one
// of its own.
type Network interface {
	Listen(network, address string) (net.Listener, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Sockets are the system's.
type Sockets struct {
	net.Dialer
}

// Listen is net.Listen.
func (*Sockets) Listen(network, address string) (net.Listener, error) {
	return net.Listen(network, address)
}

package direct

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
)

// Ports are where a node may open one: an address of its own, and the ports that
// others reach there. 0 = any that is free.
type Ports struct {
	Address     netip.Addr
	First, Last uint16
}

// ParsePorts reads "10.0.0.5:7900", "10.0.0.5:7900-7907" or "[fd00::5]:0".
func ParsePorts(text string) (Ports, error) {
	host, span, err := net.SplitHostPort(text)
	if err != nil {
		return Ports{}, errPorts
	}
	address, err := netip.ParseAddr(host)
	if err != nil || address.IsUnspecified() || address.IsMulticast() {
		return Ports{}, errPorts // others are told the address
	}
	from, to, several := strings.Cut(span, "-")
	if !several {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	if err1 != nil || err2 != nil || first > last || several && first == 0 {
		return Ports{}, errPorts
	}
	return Ports{Address: address, First: uint16(first), Last: uint16(last)}, nil
}

var errPorts = errors.New("give an address of this node that other nodes reach, and the ports that may be opened there, such as 10.0.0.5:7900-7907")

// maxShakes is how many who knock are looked at at the same time.
const maxShakes = 8

// Listener is an open port.
type Listener struct {
	inner  net.Listener
	config *tls.Config
}

// Listen opens the first port of those that is free, for whoever has the key of a sum.
func (p Ports) Listen(key *Key, peer []byte) (*Listener, error) {
	var failed error
	for port := int(p.First); port <= int(p.Last); port++ {
		inner, err := net.Listen("tcp", netip.AddrPortFrom(p.Address, uint16(port)).String())
		if err == nil {
			return &Listener{inner, key.config(peer)}, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("open a port for a direct connection: %w", failed)
}

// Address is where the port is.
func (l *Listener) Address() string { return l.inner.Addr().String() }

// Accept waits for the one connection, and closes the port. Whoever else knocks is
// hung up on. Its context's end closes the port too.
func (l *Listener) Accept(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { l.inner.Close() })
	found := make(chan net.Conn, 1)
	places := make(chan struct{}, maxShakes)
	var shaking sync.WaitGroup
	for {
		raw, err := l.inner.Accept()
		if err != nil {
			break // closed, by what follows or by the end of the context
		}
		select {
		case places <- struct{}{}:
		default:
			raw.Close()
			continue
		}
		shaking.Go(func() {
			defer func() { <-places }()
			conn := tls.Server(raw, l.config)
			if shake(ctx, conn) == nil {
				select {
				case found <- conn:
					l.inner.Close()
					return
				default:
				}
			}
			raw.Close()
		})
	}
	stop()
	cancel() // also whoever else knocks
	shaking.Wait()
	l.inner.Close()
	select {
	case conn := <-found:
		return conn, nil
	default:
		return nil, errNobody
	}
}

// errNobody is returned when the one connection did not come in time.
var errNobody = errors.New("no direct connection came")

// Close closes the port. Accept does that too.
func (l *Listener) Close() { l.inner.Close() }

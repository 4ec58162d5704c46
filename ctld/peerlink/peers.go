package peerlink

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"

	"google.golang.org/grpc"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
)

// Options describe this controller to the others.
type Options struct {
	Version string
	Level   uint32 // the newest feature level it understands
	// LevelInForce is the level in force in the cluster.
	LevelInForce func() uint32
	// TLS is for dialling other controllers; nil when there is no address for
	// them.
	TLS *tls.Config
	// Network is where they are dialled; needed with TLS.
	Network replica.Network
	// Over tells that connections with others have been closed; needed with TLS.
	Over <-chan struct{}
	// Admitted records on disk that this controller has become a voting member.
	Admitted func() error
	// Leads returns nil when a majority confirms that this controller leads.
	Leads func(context.Context) error
	// Problem is what an administrator should repair at this controller, with
	// the remedy; "" = nothing.
	Problem func() string
	// HistoryThrough is the position up to which this controller's database has all
	// runs.
	HistoryThrough func() uint64
	Logger         *slog.Logger
}

// Peers are the other controllers, as this one deals with them.
type Peers struct {
	peer    *replica.Peer
	options Options
	log     *slog.Logger
	links   links

	changing sync.Mutex // one change of the members at a time

	mu    sync.Mutex
	route Route
}

// Route is the way to the controller that leads.
type Route struct {
	Leader  string // its name; "" = none is known
	Address string
	// Over is done when another controller leads: requests still under way on this route
	// are given up. It is a context since thousands of them may wait for it.
	Over context.Context
	over context.CancelFunc
}

func newRoute(leader, address string) Route {
	ctx, cancel := context.WithCancel(context.Background())
	return Route{leader, address, ctx, cancel}
}

// New makes the dealings of one controller with the others.
func New(peer *replica.Peer, options Options) *Peers {
	return &Peers{peer: peer, options: options, log: options.Logger, links: links{tls: options.TLS, network: options.Network}, route: newRoute("", "")}
}

// Watch keeps the route to the leader until ctx ends. led is called when a
// leader is known for the first time.
func (p *Peers) Watch(ctx context.Context, led func()) {
	defer p.links.close()
	p.peer.FollowLeader(ctx, func(name, address string) {
		// While none is known, requests under way may still be answered.
		if name == "" {
			return
		}
		p.mu.Lock()
		if p.route.Leader != name || p.route.Address != address {
			p.route.over()
			p.route = newRoute(name, address)
		}
		p.mu.Unlock()
		if name != p.peer.Name() {
			if conn, err := p.links.to(name, address, Control); err == nil {
				conn.Connect() // before the first request needs it
			}
		}
		led()
	})
}

// Leader is the connection to the controller that leads, nil when this one
// does or none is known.
func (p *Peers) Leader(lane Lane) (*grpc.ClientConn, Route, error) {
	name, address := p.peer.LeaderAddress()
	if name == "" || name == p.peer.Name() {
		return nil, Route{}, nil
	}
	p.mu.Lock()
	route := p.route
	p.mu.Unlock()
	if route.Leader != name || route.Address != address {
		return nil, Route{}, nil // known in a moment
	}
	conn, err := p.links.to(name, address, lane)
	return conn, route, err
}

// IsMember reports whether a controller of this name belongs to the cluster, as
// far as this one knows.
func (p *Peers) IsMember(name string) bool {
	_, found := p.member(name)
	return found
}

func (p *Peers) member(name string) (replica.Member, bool) {
	for _, member := range p.peer.Members() {
		if member.Name == name {
			return member, true
		}
	}
	return replica.Member{}, false
}

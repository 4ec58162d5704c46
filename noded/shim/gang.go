package shim

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A job on several nodes with a network of its own has one between its nodes: see package
// gangnet. Its link is there while the job may run, and cut while it is saved.

// resolvePatience bounds how long the addresses of the other nodes are looked up.
const resolvePatience = 2 * time.Second

// gangEnd is the allocation's part in it.
type gangEnd struct {
	end    *gangnet.End
	prefix netip.Prefix
	index  int

	mu        sync.Mutex
	namespace string // the job's; "" = its container is not up
	cut       bool   // for a save
	peers     []gangnet.Peer
	nodes     []string // of the allocations
}

// beginNetwork opens what the allocation needs for that before it is up, if its job has
// such a network.
func (p *alloc) beginNetwork() error {
	if p.order.Network == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(p.order.Network)
	if err != nil {
		return fmt.Errorf("the job's network: %w", err)
	}
	var others []netip.Addr
	for i, address := range p.order.NodeAddresses {
		if i == p.job.Index {
			continue
		}
		if at := lookUp(address); at.IsValid() {
			others = append(others, at)
		}
	}
	mtu := gangnet.MTU(gangnet.PathMTU(others))
	end, err := gangnet.Begin("/proc/self/exe", string(p.dir), p.settings.Network.WireGuard, prefix, p.job.Index, mtu, p.log)
	if err != nil {
		return err
	}
	p.gang = &gangEnd{end: end, prefix: prefix, index: p.job.Index, nodes: allocated(p.order)}
	p.mu.Lock()
	p.core.NetworkEnd = end.Message()
	p.mu.Unlock()
	return nil
}

func lookUp(address string) netip.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), resolvePatience)
	defer cancel()
	return prepare.AddressOf(ctx, address)
}

// settle gives the job's network the allocation's address. Nothing leads out of it yet.
func (n *gangEnd) settle(pid int) error {
	if n == nil {
		return nil
	}
	namespace := fmt.Sprintf("/proc/%d/ns/net", pid)
	if err := gangnet.Settle(namespace, n.prefix, n.end.Prefix().Addr()); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.namespace = namespace
	return nil
}

// joined is a job's way out, or nil, and its network between its nodes, as one.
type joined struct {
	out  container.Network
	gang *gangEnd
}

// Join implements container.Network. The link of a restored job waits for the connections of
// the allocations on the other nodes: see mayBegin.
func (j joined) Join(pid int, restored bool) error {
	if err := j.gang.settle(pid); err != nil {
		return err
	}
	if j.out != nil {
		if err := j.out.Join(pid, restored); err != nil {
			return err
		}
	}
	if restored {
		return nil
	}
	return j.gang.open()
}

// open makes the link, unless the job is being saved.
func (n *gangEnd) open() error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cut || n.namespace == "" {
		return nil
	}
	return n.end.Open(n.namespace)
}

// hold cuts the link of a job that is frozen to be saved: what it has in its connections
// must not change any more, here or on the other nodes. It stays cut until release.
func (n *gangEnd) hold() error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	return n.end.Cut()
}

// release ends hold.
func (n *gangEnd) release() error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	n.cut = false
	n.mu.Unlock()
	return n.open()
}

// meet hears who the others are. It may be told again.
func (n *gangEnd) meet(told []*pb.NetworkPeer) error {
	if n == nil {
		return nil
	}
	peers, err := gangnet.Peers(n.prefix, n.index, told, lookUp)
	if err != nil {
		return err
	}
	slices.SortFunc(peers, func(a, b gangnet.Peer) int { return a.Address.Compare(b.Address) })
	if err := n.end.Meet(peers, gangnet.CommonMTU(int(n.end.Message().GetMtu()), told)); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peers = peers
	return nil
}

func (n *gangEnd) close() {
	if n != nil {
		n.end.Close()
	}
}

// Package gangnet makes the network that a job on several nodes has between its nodes:
// one range of addresses, which belong to the job's allocations and not to the nodes, and
// WireGuard between them.
//
// Contract. An End is one allocation's part of it. It is a process of its own ("PROGRAM
// gang-network", see package wire), which dies with the supervisor that began it, survives the
// node's daemon, and holds the only copy but the supervisor's of a private key that was
// made for this run. The address of the allocation is on the loopback interface of the
// job's network namespace, for as long as that lives: CRIU saves and restores it, and
// connections keep it while nothing leads to the other nodes. The link is an interface
// beside it, which comes with Open and goes with Cut. While it is cut nothing gets in or
// out, and nobody is told that: packets vanish, as on a bad line, and TCP sends them again.
//
// So a job on several nodes can be saved with its connections: each allocation is frozen,
// its link is cut, and it is dumped. Whatever one of them has not acknowledged by then is
// still in the image of the other. The order is everything: no link may open before the
// connections of all allocations are there again, or the kernel of one refuses what
// another one sends, and the connection is lost.
//
// This file is pure: the addresses of allocations, what the peers are told, how large a packet
// may be.
package gangnet

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Device is the name of the link in the job's network.
const Device = "gang0"

// ErrPeers is returned, wrapped, for peers with whom there can be no network.
var ErrPeers = errors.New("the controller named peers with whom the job has no network")

// address is that of an allocation in one range of its job's network: those after the first,
// which nobody has.
func address(network netip.Prefix, index int) (netip.Addr, error) {
	const most = 32 // bits of a number
	free := min(network.Addr().BitLen()-network.Bits(), most)
	if index < 0 || !network.IsValid() || uint64(index)+1 >= 1<<free {
		return netip.Addr{}, fmt.Errorf("network %s has no address for node %d of the job", network, index)
	}
	text := network.Masked().Addr().AsSlice()
	last := text[len(text)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+uint32(index)+1)
	at, _ := netip.AddrFromSlice(text)
	return at, nil
}

// Network are the addresses of a job's network.
type Network struct{ V4, V6 netip.Prefix }

// Addresses are those of one allocation in it.
type Addresses struct{ V4, V6 netip.Addr }

// ParseNetwork reads the two ranges.
func ParseNetwork(v4, v6 string) (n Network, err error) {
	if n.V4, err = netip.ParsePrefix(v4); err == nil {
		n.V6, err = netip.ParsePrefix(v6)
	}
	if err == nil && !(n.V4.Addr().Is4() && n.V6.Addr().Is6()) {
		err = fmt.Errorf("%s and %s are no ranges of IPv4 and of IPv6", v4, v6)
	}
	if err != nil {
		return Network{}, fmt.Errorf("the job's network: %w", err)
	}
	return n, nil
}

// At are the addresses of an allocation.
func (n Network) At(index int) (at Addresses, err error) {
	if at.V4, err = address(n.V4, index); err == nil {
		at.V6, err = address(n.V6, index)
	}
	return at, err
}

// Peer is another allocation of the job.
type Peer struct {
	Key       []byte
	Endpoint  netip.AddrPort // of its node
	Addresses                // in the job's network
}

// Allowed are the packets that it may send, and those that are for it.
func (p *Peer) Allowed() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(p.V4, p.V4.BitLen()), netip.PrefixFrom(p.V6, p.V6.BitLen())}
}

// keyBytes is the length of a key.
const keyBytes = 32

// Peers are the other ends of a network, as the controller has told them. node answers the
// address of a node.
func Peers(network Network, own int, told []*pb.NetworkPeer, node func(string) netip.Addr) ([]Peer, error) {
	peers := make([]Peer, 0, len(told))
	seen := map[uint32]bool{uint32(own): true}
	for _, t := range told {
		address, err := network.At(int(t.GetIndex()))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPeers, err)
		}
		end := t.GetEnd()
		switch {
		case seen[t.GetIndex()]:
			return nil, fmt.Errorf("%w: two of them have the address %s", ErrPeers, address.V4)
		case len(end.GetPublicKey()) != keyBytes:
			return nil, fmt.Errorf("%w: %s has no key", ErrPeers, address.V4)
		case end.GetPort() == 0 || end.GetPort() > 0xffff:
			return nil, fmt.Errorf("%w: %s has no port", ErrPeers, address.V4)
		}
		seen[t.GetIndex()] = true
		at := node(t.GetAddress())
		if !at.IsValid() {
			return nil, fmt.Errorf("%w: the address of node %q is not known here: set address in its configuration", ErrPeers, t.GetAddress())
		}
		peers = append(peers, Peer{Key: end.GetPublicKey(), Endpoint: netip.AddrPortFrom(at, uint16(end.GetPort())), Addresses: address})
	}
	return peers, nil
}

// What WireGuard and the outer UDP and IP headers take of a packet.
const (
	overhead4 = 60
	overhead6 = 80
)

// Bounds of the size of a packet in a job's network. With the least of them IPv6 works; the
// most is what jumbo frames carry.
const (
	leastMTU = 1280
	mostMTU  = 9000 - overhead6
)

// MTU is how large a packet may be if the largest between two nodes is path; 0 = unknown.
func MTU(path int, v6 bool) int {
	overhead := overhead4
	if v6 {
		overhead = overhead6
	}
	if path == 0 {
		path = 1500
	}
	return min(max(path-overhead, leastMTU), mostMTU)
}

// CommonMTU is how large a packet may be that all ends can take.
func CommonMTU(own int, told []*pb.NetworkPeer) int {
	least := own
	for _, t := range told {
		if mtu := int(t.GetEnd().GetMtu()); mtu > 0 {
			least = min(least, mtu)
		}
	}
	return max(least, leastMTU)
}

// KeepAliveS is how often each end says that it is there, in seconds: no way through a
// firewall that remembers its users is forgotten. It also has both ends make their first
// exchange of keys at once, and not with the first packet.
const KeepAliveS = 25

// Settings are what WireGuard is told about the peers, in the words of its interface of
// settings. Those that it knows and that are not named are forgotten.
func Settings(peers []Peer) string {
	var text strings.Builder
	text.WriteString("replace_peers=true\n")
	for _, p := range peers {
		fmt.Fprintf(&text, "public_key=%s\nendpoint=%s\nreplace_allowed_ips=true\npersistent_keepalive_interval=%d\n", hex.EncodeToString(p.Key), p.Endpoint, KeepAliveS)
		for _, allowed := range p.Allowed() {
			fmt.Fprintf(&text, "allowed_ip=%s\n", allowed)
		}
	}
	return text.String()
}

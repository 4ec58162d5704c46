package prepare

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// hostsDeadline bounds how long a start waits for the addresses of its nodes, where
// they are known by names.
const hostsDeadline = 2 * time.Second

// hosts are the nodes of the run, by their names and by those which the processes
// know them by: both lead to where the allocation is now. A node that is reached by its
// name needs no line. With a network of its own the job reaches itself only, or the other
// nodes in the network that it has between them.
func (j *Job) hosts() []container.Host {
	if network, has := j.network(); has {
		return j.hostsBetween(network)
	}
	var hosts []container.Host
	ctx, cancel := context.WithTimeout(context.Background(), hostsDeadline)
	defer cancel()
	for i, at := range j.Order.Allocation {
		if i >= len(j.Order.NodeAddresses) {
			break
		}
		names, address := []string{at.Node}, j.Order.NodeAddresses[i]
		moved := i < len(j.Order.KnownAs) && j.Order.KnownAs[i] != at.Node
		if moved {
			names = append(names, j.Order.KnownAs[i])
		}
		alone := at.Node == j.Order.Node && j.Order.Spec.GetNetwork() == pb.Network_NETWORK_PRIVATE
		var ip netip.Addr
		switch {
		case alone:
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		case moved || address != at.Node:
			ip = AddressOf(ctx, address)
		}
		for n, name := range names {
			hosts = append(hosts, container.Host{Name: name, Address: ip, First: alone || n > 0})
		}
	}
	return hosts
}

// hostsBetween are the nodes in the network that the job has between them. The names by
// which the processes know them come first: after a move one of them may be another
// node's.
func (j *Job) hostsBetween(network gangnet.Network) []container.Host {
	var known, present []container.Host
	for i, at := range j.Order.Allocation {
		address, err := network.At(i)
		if err != nil {
			break
		}
		name := at.Node
		if i < len(j.Order.KnownAs) {
			name = j.Order.KnownAs[i]
			present = append(present, container.Host{Name: at.Node, Address: address.V4, Address6: address.V6})
		}
		known = append(known, container.Host{Name: name, Address: address.V4, Address6: address.V6, First: true})
	}
	return append(known, present...)
}

// network are the addresses of that network; false = there is none.
func (j *Job) network() (gangnet.Network, bool) {
	network, err := gangnet.ParseNetwork(j.Order.GetNetwork(), j.Order.GetNetwork6())
	return network, err == nil
}

// peers are where the job's other allocations are, which are saved with this one.
func (j *Job) peers() []netip.Prefix {
	network, has := j.network()
	if !has {
		return nil
	}
	return []netip.Prefix{network.V4, network.V6}
}

// AddressOf is that of a node, which it says itself: an address or a name. A name
// that is not found leaves the job without a line for the node.
func AddressOf(ctx context.Context, address string) netip.Addr {
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address)
	if err != nil || len(found) == 0 {
		return netip.Addr{}
	}
	return found[0].Unmap()
}

// stepPort is where process 1 listens in the network between a job's nodes: that of slurmd,
// below the ports that programs get without asking.
const stepPort = 6818

// stepAddress is that of this node; "" = there is no such network.
func (j *Job) stepAddress() string {
	network, has := j.network()
	if !has {
		return ""
	}
	at, err := network.At(j.Index)
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(at.V4, stepPort).String()
}

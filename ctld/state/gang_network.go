package state

import (
	"math/bits"
	"net/netip"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// gangNetworks are the addresses from which each job on several nodes gets those of its
// own network. They are reserved for measurements between machines (RFC 2544), so that no
// site has routes to them. Networks of two jobs never meet, so it does no harm that two
// jobs may get the same.
var gangNetworks = netip.MustParsePrefix("198.18.0.0/15")

// HasNetwork reports whether the present run has a network between its nodes.
func (j *Job) HasNetwork() bool {
	return j.IsGang() && !j.stages() && j.networkNow() == pb.Network_NETWORK_PRIVATE
}

// network is the range of addresses of a job's network, the same in each of its runs.
func (j *Job) network() netip.Prefix {
	hosts := bits.Len(uint(len(j.Run.Allocs) + 1)) // with the first and the last, which nobody has
	free := gangNetworks.Addr().BitLen() - gangNetworks.Bits()
	if hosts > free {
		return gangNetworks
	}
	number := uint32(j.ID) & (1<<(free-hosts) - 1) << hosts
	base := gangNetworks.Addr().As4()
	for i := range base {
		base[i] |= byte(number >> (8 * (3 - i)))
	}
	return netip.PrefixFrom(netip.AddrFrom4(base), gangNetworks.Addr().BitLen()-hosts)
}

// networkText is the network for messages; "" when there is none.
func (j *Job) networkText() string {
	if !j.HasNetwork() {
		return ""
	}
	return j.network().String()
}

package network

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
)

// Ranges are the addresses of the jobs of a site.
type Ranges struct {
	V4 netip.Prefix `json:"v4"`
	V6 netip.Prefix `json:"v6"`
}

// Bounds of a range. A smaller one has too few addresses for the jobs of a node.
const (
	leastBits4, mostBits4 = 8, 24
	mostBits6             = 96
)

// candidates4 are tried in turn where the site sets no range. None of them is what
// networks or other programs usually begin with.
var candidates4 = []netip.Prefix{
	netip.MustParsePrefix("10.213.0.0/16"), netip.MustParsePrefix("172.29.0.0/16"),
	netip.MustParsePrefix("10.87.0.0/16"), netip.MustParsePrefix("100.97.0.0/16"), netip.MustParsePrefix("192.168.213.0/24"),
}

// default6 is a unique local prefix, see RFC 4193.
var default6 = netip.MustParsePrefix("fd6c:9a3e:11f2:7e05::/64")

// ChooseRanges fills in what the site did not set: with ranges that overlap no route of
// the host's.
func ChooseRanges(asked Ranges, routes []netip.Prefix) (Ranges, error) {
	if !asked.V4.IsValid() {
		for _, candidate := range candidates4 {
			if !overlapsAny(candidate, routes) {
				asked.V4 = candidate
				break
			}
		}
	}
	if !asked.V6.IsValid() {
		asked.V6 = default6
	}
	if !asked.V4.IsValid() {
		return Ranges{}, fmt.Errorf("the host has routes to all ranges that jobs' networks could have: set network.range to an unused one of %d bits or fewer", mostBits4)
	}
	return asked, nil
}

// CheckRange4 refuses a range that the site cannot set.
func CheckRange4(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is4() || p.Bits() < leastBits4 || p.Bits() > mostBits4 || p != p.Masked() {
		return fmt.Errorf("a range of IPv4 addresses is needed, of %d to %d bits and with nothing after them, for example 10.213.0.0/16", leastBits4, mostBits4)
	}
	return nil
}

// CheckRange6 is CheckRange4 for IPv6.
func CheckRange6(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is6() || p.Addr().Is4In6() || p.Bits() > mostBits6 || p != p.Masked() {
		return fmt.Errorf("a range of IPv6 addresses is needed, of at most %d bits and with nothing after them, for example %s", mostBits6, default6)
	}
	return nil
}

// overlapsAny says whether a route leads into p. The default route leads everywhere and
// does not count.
func overlapsAny(p netip.Prefix, routes []netip.Prefix) bool {
	for _, r := range routes {
		if r.Bits() > 0 && r.Overlaps(p) {
			return true
		}
	}
	return false
}

// Spread is added to the numbers of a node's jobs. Nodes of one cluster have one state_dir,
// as a rule, so that jobs of unlike numbers have unlike addresses and find them free where
// they resume. Clusters that share a machine have jobs of the same numbers.
func Spread(stateDir string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(stateDir))
	return h.Sum32()
}

// Pair answers the addresses of one number: a job's first, then those after it. All of
// them are tried before one comes again.
func (r Ranges) Pair(number uint32) (v4, v6 netip.Addr) {
	index := number%r.numbers() + 1
	base := r.V4.Addr().As4()
	binary.BigEndian.PutUint32(base[:], binary.BigEndian.Uint32(base[:])+index)
	long := r.V6.Addr().As16()
	binary.BigEndian.PutUint32(long[12:], index)
	return netip.AddrFrom4(base), netip.AddrFrom16(long)
}

// Tries is how many numbers are tried for a job.
func (r Ranges) Tries() uint32 {
	const most = 4096
	return min(most, r.numbers())
}

// numbers is how many addresses there are: all but the first and the last.
func (r Ranges) numbers() uint32 { return uint32(1)<<(32-r.V4.Bits()) - 2 }

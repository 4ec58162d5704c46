package network

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"net/netip"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Ranges are the addresses of the jobs of a site.
type Ranges struct {
	V4 netip.Prefix `json:"v4"`
	V6 netip.Prefix `json:"v6"`
}

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
			if _, leads := spec.RouteInto(candidate, routes); !leads {
				asked.V4 = candidate
				break
			}
		}
	}
	if !asked.V6.IsValid() {
		asked.V6 = default6
	}
	if !asked.V4.IsValid() {
		return Ranges{}, errors.New("the host has routes to all ranges that jobs' networks could have: set network.range to an unused one of 24 bits or fewer")
	}
	return asked, nil
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

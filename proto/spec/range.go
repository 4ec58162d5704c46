package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// This file is about ranges of addresses that networks of jobs have: on a node, and between
// the nodes of a job.

// mostRangeBits6 is that of a range on a node: a smaller one has too few addresses for its
// jobs.
const (
	leastRangeBits = 8
	mostRangeBits4 = 24
	mostRangeBits6 = 96
)

// unusable4 are addresses that no network of a job can have.
var unusable4 = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
}

// usable6 are those that it can have: unique local ones, and those of the Internet.
var usable6 = []netip.Prefix{netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("2000::/3")}

// CheckRange4 refuses what cannot be a range of the addresses of jobs on a node.
func CheckRange4(p netip.Prefix) error { return checkRange4(p, mostRangeBits4, "10.213.0.0/16") }

// CheckRange6 is CheckRange4 for IPv6.
func CheckRange6(p netip.Prefix) error {
	return checkRange6(p, mostRangeBits6, "fd6c:9a3e:11f2:7e05::/64")
}

func checkRange4(p netip.Prefix, most int, example string) error {
	if !p.IsValid() || !p.Addr().Is4() || p.Bits() < leastRangeBits || p.Bits() > most || p != p.Masked() {
		return fmt.Errorf("a range of IPv4 addresses is needed, of %d to %d bits and with nothing after them, for example %s", leastRangeBits, most, example)
	}
	for _, not := range unusable4 {
		if not.Overlaps(p) {
			return fmt.Errorf("the addresses of %s have a meaning of their own, as loopback, link-local or multicast ones: choose others, for example %s", not, example)
		}
	}
	return nil
}

func checkRange6(p netip.Prefix, most int, example string) error {
	if !p.IsValid() || !p.Addr().Is6() || p.Addr().Is4In6() || p.Bits() > most || p != p.Masked() {
		return fmt.Errorf("a range of IPv6 addresses is needed, of at most %d bits and with nothing after them, for example %s", most, example)
	}
	for _, usable := range usable6 {
		if usable.Bits() <= p.Bits() && usable.Contains(p.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("these addresses are neither unique local ones (%s) nor those of the Internet (%s): choose others, for example %s", usable6[0], usable6[1], example)
}

// RouteInto is the first of a machine's routes that leads into a range. Routes of fewer than
// eight bits lead everywhere, as the default route and the halves of it that VPNs make,
// and do not count.
func RouteInto(p netip.Prefix, routes []netip.Prefix) (route netip.Prefix, leads bool) {
	for _, r := range routes {
		if r.Bits() >= leastRangeBits && r.Overlaps(p) {
			return r, true
		}
	}
	return netip.Prefix{}, false
}

// MaxRoutes is how many routes a node tells.
const MaxRoutes = 128

// WidestRoutes are the routes of a machine that count for RouteInto, in words: each once,
// those that are within another left out, and of very many the widest.
func WidestRoutes(routes []netip.Prefix) (texts []string) {
	counts := slices.DeleteFunc(slices.Clone(routes), func(r netip.Prefix) bool {
		a := r.Addr()
		return r.Bits() < leastRangeBits || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast()
	})
	slices.SortFunc(counts, func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(a.Bits(), b.Bits()), a.Addr().Compare(b.Addr()))
	})
	var kept []netip.Prefix
	for _, r := range counts {
		if len(kept) < MaxRoutes && !slices.ContainsFunc(kept, r.Overlaps) {
			kept, texts = append(kept, r), append(texts, r.String())
		}
	}
	return texts
}

// GangRange are the addresses from which jobs on several nodes get those of the networks
// between their nodes, or those of one of these networks.
type GangRange struct{ V4, V6 netip.Prefix }

// DefaultGangRange is that of a site that sets none. IPv4: addresses for measurements between
// machines (RFC 2544), to which no site has routes. IPv6: unique local ones (RFC 4193).
var DefaultGangRange = GangRange{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fd6c:9a3e:11f2:7e06::/64")}

// Bounds of it: the IPv4 range has addresses for the largest job, and the IPv6 range has a
// network of mostGangBits6 bits for each number that a job can have.
const (
	mostGangBits4 = 16
	mostGangBits6 = 64
)

// ParseGangRange reads the two ranges; "" = the default.
func ParseGangRange(v4, v6 string) (GangRange, error) {
	r := DefaultGangRange
	for _, part := range []struct {
		key, text string
		check     func(netip.Prefix) error
		into      *netip.Prefix
	}{
		{"gang_range", v4, func(p netip.Prefix) error { return checkRange4(p, mostGangBits4, DefaultGangRange.V4.String()) }, &r.V4},
		{"gang_range6", v6, func(p netip.Prefix) error { return checkRange6(p, mostGangBits6, DefaultGangRange.V6.String()) }, &r.V6},
	} {
		if part.text == "" {
			continue
		}
		prefix, _ := netip.ParsePrefix(part.text) // what is none is no range
		if err := part.check(prefix); err != nil {
			return GangRange{}, fmt.Errorf("%s %q: %w", part.key, shorten(part.text), err)
		}
		*part.into = prefix
	}
	return r, nil
}

// RouteInto is the first of a machine's routes that leads into one of the two.
func (r GangRange) RouteInto(routes []netip.Prefix) (route, into netip.Prefix, leads bool) {
	for _, into := range []netip.Prefix{r.V4, r.V6} {
		if route, leads := RouteInto(into, routes); leads {
			return route, into, true
		}
	}
	return route, into, false
}

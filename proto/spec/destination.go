package spec

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Destination is where jobs with a network of their own may connect to.
type Destination struct {
	Net         netip.Prefix
	First, Last uint16 // ports of TCP and UDP; 0, 0 = all, and every protocol
}

// MaxDestinations is how many a site, partition or owner may name.
const MaxDestinations = 64

// Words of a list of destinations that stand alone.
const (
	Everywhere = "all"
	Nowhere    = "none"
)

const destinationForms = "write an address, a range of addresses, or either with ports: 10.1.0.7, 10.0.0.0/8, 10.1.0.7:443, 10.0.0.0/8:8000-8099, [2001:db8::/32]:443"

// ParseDestination reads "10.0.0.0/8:443".
func ParseDestination(text string) (Destination, error) {
	net, ports := text, ""
	if inner, after, ok := strings.Cut(strings.TrimPrefix(text, "["), "]"); ok && strings.HasPrefix(text, "[") {
		net = inner
		if after != "" {
			if ports, ok = strings.CutPrefix(after, ":"); !ok || ports == "" {
				return Destination{}, fmt.Errorf("%q is no destination: %s", shorten(text), destinationForms)
			}
		}
	} else if strings.Count(text, ":") == 1 {
		net, ports, _ = strings.Cut(text, ":")
		if ports == "" {
			return Destination{}, fmt.Errorf("%q is no destination: %s", shorten(text), destinationForms)
		}
	}
	var d Destination
	prefix, err := netip.ParsePrefix(net)
	if err != nil {
		address, err := netip.ParseAddr(net)
		if err != nil || address.Zone() != "" {
			return Destination{}, fmt.Errorf("%q is no destination: %s", shorten(text), destinationForms)
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	if prefix.Addr().Is4In6() {
		return Destination{}, fmt.Errorf("%q is no destination: write its IPv4 address as such", shorten(text))
	}
	if prefix != prefix.Masked() {
		return Destination{}, fmt.Errorf("%q is no destination: the range is %s", shorten(text), prefix.Masked())
	}
	d.Net = prefix
	if ports == "" {
		return d, nil
	}
	first, last, isRange := strings.Cut(ports, "-")
	if d.First, err = port(first); err == nil && isRange {
		d.Last, err = port(last)
	} else {
		d.Last = d.First
	}
	if err != nil || d.Last < d.First {
		return Destination{}, fmt.Errorf("%q is no destination: its ports are not numbers of 1 to 65535, or FIRST-LAST of those", shorten(text))
	}
	return d, nil
}

func port(text string) (uint16, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err == nil && (number == 0 || text[0] == '0' || text[0] == '+') {
		err = strconv.ErrSyntax
	}
	return uint16(number), err
}

// ParseDestinations reads a list of destinations, or the word all or none alone, and
// answers it as it is written.
func ParseDestinations(list []string) ([]string, error) {
	if len(list) > MaxDestinations {
		return nil, fmt.Errorf("%d destinations are too many: at most %d", len(list), MaxDestinations)
	}
	written := make([]string, 0, len(list))
	for _, text := range list {
		if word := strings.ToLower(text); word == Everywhere || word == Nowhere {
			if len(list) > 1 {
				return nil, fmt.Errorf("%q stands alone: leave it out, or the others", word)
			}
			return []string{word}, nil
		}
		d, err := ParseDestination(text)
		if err != nil {
			return nil, err
		}
		written = append(written, d.String())
	}
	return written, nil
}

// CommonDestinations is what two lists, as ParseDestinations answers them, both allow. An
// empty one allows everything.
func CommonDestinations(a, b []string) []string {
	switch {
	case len(b) == 0 || b[0] == Everywhere:
		return a
	case len(a) == 0 || a[0] == Everywhere:
		return b
	}
	var common []string
	for _, one := range a {
		for _, other := range b {
			x, err := ParseDestination(one) // the words all and none are no destinations
			y, otherErr := ParseDestination(other)
			if both, meet := x.common(y); err == nil && otherErr == nil && meet && !slices.Contains(common, both.String()) {
				common = append(common, both.String())
			}
		}
	}
	if len(common) == 0 {
		return []string{Nowhere}
	}
	return common
}

// common is where two destinations meet.
func (d Destination) common(o Destination) (Destination, bool) {
	if !d.Net.Overlaps(o.Net) {
		return Destination{}, false
	}
	if o.Net.Bits() > d.Net.Bits() {
		d.Net = o.Net
	}
	switch {
	case o.First == 0:
		return d, true
	case d.First == 0:
		d.First, d.Last = o.First, o.Last
		return d, true
	}
	d.First, d.Last = max(d.First, o.First), min(d.Last, o.Last)
	return d, d.First <= d.Last
}

// UnlimitedRate is a rate without a limit.
const UnlimitedRate = math.MaxUint64

// leastRate is below what a program can work with.
const leastRate = 1 << 10

// ParseRate reads "100M", bytes a second, or unlimited; "" is 0: nothing is said.
func ParseRate(text string) (uint64, error) {
	switch strings.ToLower(text) {
	case "":
		return 0, nil
	case "unlimited":
		return UnlimitedRate, nil
	}
	rate, err := ParseSize(text, 1)
	if err == nil && rate < leastRate {
		err = fmt.Errorf("%q is less than 1K", shorten(text))
	}
	if err != nil {
		return 0, fmt.Errorf("%w: give bytes a second, such as 100M, or unlimited", err)
	}
	return rate, nil
}

// FormatRate is what ParseRate reads.
func FormatRate(rate uint64) string {
	switch rate {
	case 0:
		return ""
	case UnlimitedRate:
		return "unlimited"
	}
	return FormatSize(rate)
}

// String is what ParseDestination reads.
func (d Destination) String() string {
	net := d.Net.String()
	if d.Net.IsSingleIP() {
		net = d.Net.Addr().String()
	}
	if d.First == 0 {
		return net
	}
	if d.Net.Addr().Is6() {
		net = "[" + net + "]"
	}
	if d.First == d.Last {
		return fmt.Sprintf("%s:%d", net, d.First)
	}
	return fmt.Sprintf("%s:%d-%d", net, d.First, d.Last)
}

package spec

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestParseGangRange(t *testing.T) {
	for texts, want := range map[[2]string]GangRange{
		{"", ""}:                      DefaultGangRange,
		{"10.64.0.0/12", ""}:          {netip.MustParsePrefix("10.64.0.0/12"), DefaultGangRange.V6},
		{"", "2001:db8:1:2::/64"}:     {DefaultGangRange.V4, netip.MustParsePrefix("2001:db8:1:2::/64")},
		{"100.64.0.0/10", "fd00::/8"}: {netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd00::/8")},
	} {
		if got, err := ParseGangRange(texts[0], texts[1]); err != nil || got != want {
			t.Errorf("%q: %v, %v", texts, got, err)
		}
	}
	for texts, want := range map[[2]string]string{
		{"10.0.0.0/24", ""}:        `gang_range "10.0.0.0/24": a range of IPv4 addresses is needed, of 8 to 16 bits`,
		{"10.0.0.0/7", ""}:         "8 to 16 bits",
		{"10.1.2.3/16", ""}:        "with nothing after them",
		{"10.0.0.0", ""}:           "is needed",
		{"x", ""}:                  `gang_range "x"`,
		{"fd00::/16", ""}:          "IPv4 addresses",
		{"127.0.0.0/8", ""}:        "the addresses of 127.0.0.0/8 have a meaning of their own",
		{"169.254.0.0/16", ""}:     "a meaning of their own",
		{"224.0.0.0/8", ""}:        "a meaning of their own",
		{"240.0.0.0/8", ""}:        "a meaning of their own",
		{"0.0.0.0/8", ""}:          "a meaning of their own",
		{"", "fd00::/65"}:          `gang_range6 "fd00::/65": a range of IPv6 addresses is needed, of at most 64 bits`,
		{"", "::ffff:10.0.0.0/96"}: "IPv6 addresses",
		{"", "fe80::/64"}:          "neither unique local ones",
		{"", "ff00::/16"}:          "neither unique local ones",
		{"", "::/0"}:               "neither unique local ones",
		{"", "::/64"}:              "neither unique local ones",
		{"", "10.0.0.0/8"}:         "IPv6 addresses",
		{"", "fd00::1/64"}:         "with nothing after them",
	} {
		if got, err := ParseGangRange(texts[0], texts[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", texts, got, err)
		}
	}
}

// TestWidestRoutes: what every machine has and the default routes are not told, nor what is
// within another route; of very many the widest are.
func TestWidestRoutes(t *testing.T) {
	var routes []netip.Prefix
	for _, text := range strings.Fields("0.0.0.0/0 0.0.0.0/1 127.0.0.0/8 10.1.2.0/24 10.1.0.0/16 10.1.0.0/16 fe80::/64 ff00::/8 ::1/128 ::/0 2000::/3 fd00:1::/64 192.0.2.7/32 169.254.1.1/32") {
		routes = append(routes, netip.MustParsePrefix(text))
	}
	routes = append(routes, netip.Prefix{})
	if got, want := fmt.Sprint(WidestRoutes(routes)), "[10.1.0.0/16 192.0.2.7/32 fd00:1::/64]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 3 * MaxRoutes {
		routes = append(routes, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(i >> 8), byte(i), 0}), 24))
	}
	if got := WidestRoutes(routes); len(got) != MaxRoutes || got[0] != "10.1.0.0/16" {
		t.Errorf("%d: %s …", len(got), got[0])
	}
}

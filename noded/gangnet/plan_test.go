package gangnet

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func TestAddress(t *testing.T) {
	network, err := ParseNetwork("198.18.4.8/29", "fd00::9:0:0/96")
	if err != nil {
		t.Fatal(err)
	}
	for index, want := range map[int][2]string{0: {"198.18.4.9", "fd00::9:0:1"}, 6: {"198.18.4.15", "fd00::9:0:7"}, 7: {}, -1: {}} {
		got, err := network.At(index)
		if want[0] == "" && err == nil || want[0] != "" && (got.V4.String() != want[0] || got.V6.String() != want[1]) {
			t.Errorf("%d: %v, %v", index, got, err)
		}
	}
	if _, err := address(netip.MustParsePrefix("255.255.255.252/30"), 3); err == nil {
		t.Error("there is no address after the last")
	}
	if at, err := address(netip.MustParsePrefix("198.18.0.0/15"), 1<<16); err != nil || at.String() != "198.19.0.1" {
		t.Error(at, err)
	}
	for _, bad := range []int{1<<32 - 1, 1 << 40} {
		if at, err := address(netip.MustParsePrefix("fd00::/64"), bad); err == nil {
			t.Errorf("%d: %s", bad, at)
		}
	}
	for _, bad := range [][2]string{{"", ""}, {"198.18.4.8/29", ""}, {"fd00::/96", "fd00::/96"}, {"198.18.4.8/29", "198.18.4.8/29"}} {
		if network, err := ParseNetwork(bad[0], bad[1]); err == nil {
			t.Errorf("%q: %v", bad, network)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		path int
		v6   bool
		want int
	}{{1500, false, 1440}, {1500, true, 1420}, {0, false, 1440}, {576, false, 1280}, {65536, false, 8920}, {9000, true, 8920}} {
		if got := MTU(c.path, c.v6); got != c.want {
			t.Errorf("%d %v: %d", c.path, c.v6, got)
		}
	}
	if got := CommonMTU(8920, []*pb.NetworkPeer{{End: &pb.NetworkEnd{Mtu: 1440}}, {}}); got != 1440 {
		t.Errorf("the least counts, not %d", got)
	}
	if got := CommonMTU(8920, []*pb.NetworkPeer{{End: &pb.NetworkEnd{Mtu: 3}}}); got != leastMTU {
		t.Errorf("a node that says nonsense has %d taken", got)
	}
}

// TestPeers: what a controller says is not believed.
func TestPeers(t *testing.T) {
	network, key := Network{netip.MustParsePrefix("198.18.0.0/30"), netip.MustParsePrefix("fd00::/96")}, bytes.Repeat([]byte{7}, keyBytes)
	known := func(name string) netip.Addr {
		at, _ := netip.ParseAddr(name)
		return at
	}
	told := func(index uint32, address string, key []byte, port uint32) []*pb.NetworkPeer {
		return []*pb.NetworkPeer{{Index: index, Address: address, End: &pb.NetworkEnd{PublicKey: key, Port: port}}}
	}
	good, err := Peers(network, 0, told(1, "10.0.0.2", key, 4000), known)
	if err != nil || len(good) != 1 || good[0].V4.String() != "198.18.0.2" || good[0].V6.String() != "fd00::2" {
		t.Fatal(good, err)
	}
	if text := Settings(good); !strings.Contains(text, "endpoint=10.0.0.2:4000\n") || !strings.Contains(text, "allowed_ip=198.18.0.2/32\nallowed_ip=fd00::2/128\n") {
		t.Error(text)
	}
	for name, bad := range map[string][]*pb.NetworkPeer{
		"its own address": told(0, "10.0.0.2", key, 4000), "no key": told(1, "10.0.0.2", nil, 4000), "no port": told(1, "10.0.0.2", key, 0),
		"a port that is none": told(1, "10.0.0.2", key, 70000), "outside of the network": told(9, "10.0.0.2", key, 4000),
		"nobody knows where": told(1, "elsewhere", key, 4000), "twice": append(told(1, "10.0.0.2", key, 1), told(1, "10.0.0.3", key, 1)...),
		"a number that wraps": told(1<<32-1, "10.0.0.2", key, 4000),
	} {
		if peers, err := Peers(network, 0, bad, known); err == nil {
			t.Errorf("%s: %v", name, peers)
		}
	}
}

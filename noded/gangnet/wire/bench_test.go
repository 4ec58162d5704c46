package wire

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
)

// BenchmarkBetweenNodes measures a connection between two parts of a job beside one over a
// veth between the same two namespaces: bytes a second, and the time of a round trip.
func BenchmarkBetweenNodes(b *testing.B) {
	for name, pair := range pairs {
		b.Run(name, func(b *testing.B) { betweenNodes(b, newPart(b, pair[0], 0), newPart(b, pair[1], 1)) })
	}
}

func betweenNodes(b *testing.B, first, second *part) {
	meet(b, nil, first, second)
	veth(b, first.namespace, second.namespace)
	for _, way := range []struct{ name, address string }{{"gang", first.Prefix().Addr().String()}, {"veth", "192.0.2.1"}} {
		in, out := connectAt(b, first, second, way.address)
		b.Run(way.name+"/bytes", func(b *testing.B) {
			const block = 1 << 20
			b.SetBytes(block)
			go func() {
				data := make([]byte, block)
				for range b.N {
					_, _ = out.Write(data)
				}
			}()
			if _, err := io.CopyN(io.Discard, in, int64(b.N)*block); err != nil {
				b.Fatal(err)
			}
		})
		b.Run(way.name+"/round-trip", func(b *testing.B) {
			var one [1]byte
			for range b.N {
				for _, way := range [][2]net.Conn{{out, in}, {in, out}} {
					if _, err := way[0].Write(one[:]); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(way[1], one[:]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// veth makes a pair between two namespaces, with 192.0.2.1 and 192.0.2.2.
func veth(t testing.TB, namespaces ...string) {
	t.Helper()
	var open []netns.NsHandle
	for _, path := range namespaces {
		ns, err := netns.GetFromPath(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		open = append(open, ns)
	}
	err := gangnet.Within(namespaces[0], func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pair"}, PeerName: "pair", PeerNamespace: netlink.NsFd(open[1])})
	})
	for i, ns := range open {
		if err != nil {
			break
		}
		err = up(ns, netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func up(ns netns.NsHandle, address netip.Prefix) error {
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer handle.Close()
	link, err := handle.LinkByName("pair")
	if err != nil {
		return err
	}
	if err := handle.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(24, 32)}}); err != nil {
		return err
	}
	return handle.LinkSetUp(link)
}

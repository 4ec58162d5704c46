package gangnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
)

// loopback is the interface that every network namespace has.
const loopback = "lo"

// fallbackMetric is that of the route that holds while the link is cut. The link's own has
// a smaller one and counts while it is there.
const fallbackMetric = 4096

// Settle puts the addresses of an allocation on the loopback interface of its job's network
// namespace, and routes to the others that lead nowhere. With them a connection can be
// restored and kept while the link is cut. It may be done again.
//
// In that namespace TCP also tries smaller packets when large ones do not arrive: what goes
// through between two nodes may be less than either sees, and after a move less than before.
func Settle(namespace string, network Network, own Addresses) error {
	err := Within(namespace, func() error {
		_ = os.WriteFile("/proc/sys/net/ipv4/tcp_mtu_probing", []byte("1"), 0) // it is an improvement only
		return nil
	})
	if err != nil {
		return err
	}
	return inNamespace(namespace, func(h *netlink.Handle) error {
		lo, err := h.LinkByName(loopback)
		if err != nil {
			return err
		}
		if err := h.LinkSetUp(lo); err != nil {
			return err
		}
		// What is sent to an address that is not its own through the loopback interface is
		// dropped, without a word to the sender.
		if err := settle(h, lo, network.V4, own.V4); err != nil {
			return err
		}
		return unlessNoIPv6(settle(h, lo, network.V6, own.V6))
	})
}

// settle is Settle for one range.
func settle(h *netlink.Handle, lo netlink.Link, network netip.Prefix, own netip.Addr) error {
	alone := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(own, own.BitLen())), Flags: unix.IFA_F_NODAD}
	if err := h.AddrReplace(lo, alone); err != nil {
		return fmt.Errorf("give it the address %s: %w", own, err)
	}
	return route(h, lo, network, own, fallbackMetric)
}

// route leads a range through an interface.
func route(h *netlink.Handle, through netlink.Link, network netip.Prefix, own netip.Addr, metric int) error {
	err := h.RouteReplace(&netlink.Route{
		LinkIndex: through.Attrs().Index, Dst: ipNet(network.Masked()), Src: own.AsSlice(), Scope: unix.RT_SCOPE_LINK, Priority: metric,
	})
	if err != nil {
		return fmt.Errorf("route %s: %w", network, err)
	}
	return nil
}

// unlessNoIPv6 takes the error of a kernel without IPv6 for none: there the job has IPv4.
func unlessNoIPv6(err error) error {
	for _, no := range []error{unix.EACCES, unix.EPERM, unix.EOPNOTSUPP, unix.EAFNOSUPPORT} {
		if errors.Is(err, no) {
			return nil
		}
	}
	return err
}

// linkMetric is that of the route over the link: smaller than that of the fallback.
const linkMetric = 256

// Raise gives the link its addresses and its size, and turns it on. They are on the loopback
// interface too; programs that look for the addresses of an interface find them here.
func (o *Opened) Raise() error {
	v4, v6 := netip.PrefixFrom(o.Own.V4, o.Network.V4.Bits()), netip.PrefixFrom(o.Own.V6, o.Network.V6.Bits())
	return inNamespace(o.Namespace, func(h *netlink.Handle) error {
		link, err := h.LinkByName(Device)
		if err != nil {
			return err
		}
		err = errors.Join(h.LinkSetMTU(link, o.MTU), h.AddrReplace(link, &netlink.Addr{IPNet: ipNet(v4)}), h.LinkSetUp(link))
		if err != nil {
			return err
		}
		// The kernel's own route would say nothing of the sender's address.
		err = h.AddrReplace(link, &netlink.Addr{IPNet: ipNet(v6), Flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE})
		if err == nil {
			err = route(h, link, o.Network.V6, o.Own.V6, linkMetric)
		}
		return unlessNoIPv6(err)
	})
}

// inNamespace speaks with the kernel about a network namespace.
func inNamespace(path string, do func(*netlink.Handle) error) error {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("open the job's network %s: %w", path, err)
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("speak with the kernel about the job's network: %w", err)
	}
	defer handle.Close()
	if err := do(handle); err != nil {
		return fmt.Errorf("set up the job's network: %w", err)
	}
	return nil
}

// Within runs f on a thread that is in a network namespace.
func Within(path string, f func() error) (err error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("open the job's network %s: %w", path, err)
	}
	defer ns.Close()
	thread.Discard(func() {
		if err = unix.Setns(int(ns), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the job's network: %w", err)
			return
		}
		err = f()
	})
	runtime.KeepAlive(ns)
	return err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// PathMTU is the size of the largest packet that this machine sends to all of some
// addresses, as far as its routes and interfaces say; 0 = they do not say.
func PathMTU(to []netip.Addr) (mtu int, v6 bool) {
	for _, address := range to {
		v6 = v6 || address.Is6() && !address.Is4In6()
		routes, err := netlink.RouteGet(address.AsSlice())
		if err != nil || len(routes) == 0 {
			continue
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err != nil {
			continue
		}
		size := link.Attrs().MTU
		if routes[0].MTU > 0 {
			size = min(size, routes[0].MTU)
		}
		if mtu == 0 || size < mtu {
			mtu = size
		}
	}
	return mtu, v6
}

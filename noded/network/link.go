package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Hardware addresses of the two ends. Each link is a network of its own, so all may have
// the same.
var (
	nodeEnd = net.HardwareAddr{0x02, 0x67, 0x6c, 0, 0, 1}
	jobEnd  = net.HardwareAddr{0x02, 0x67, 0x6c, 0, 0, 2}
)

// side is one of the two network namespaces.
type side struct {
	*netlink.Handle
	ns netns.NsHandle // of the job; -1 = the node's own
}

// nodeSide is the network namespace of this program.
func nodeSide() (*side, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("reach the kernel's network: %w", err)
	}
	return &side{handle, -1}, nil
}

// jobSide is the network namespace of a process.
func jobSide(pid int) (*side, error) {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return nil, fmt.Errorf("open the job's network: %w", err)
	}
	return sideOf(ns)
}

// sideOf is a network namespace, whose descriptor it takes.
func sideOf(ns netns.NsHandle) (*side, error) {
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("reach the job's network: %w", err)
	}
	return &side{handle, ns}, nil
}

func (s *side) close() {
	s.Handle.Close()
	if s.ns >= 0 {
		s.ns.Close()
	}
}

func cidr(address netip.Addr) *net.IPNet {
	bits := address.BitLen()
	return &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, bits)}
}

// ownAddresses are those that the job's loopback interface has already, because they came
// with its image, but for those of another network.
func (s *side) ownAddresses(besides netip.Prefix) (v4, v6 netip.Addr, err error) {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return v4, v6, fmt.Errorf("look at the job's network: %w", err)
	}
	list, err := s.addresses(lo)
	if err != nil {
		return v4, v6, fmt.Errorf("look at the job's network: %w", err)
	}
	for _, a := range list {
		address, _ := netip.AddrFromSlice(a.IP)
		address = address.Unmap()
		switch {
		case address.Is4() && a.Label == addressLabel:
			v4 = address
		case address.Is6() && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !besides.Contains(address) && !v6.IsValid():
			v6 = address
		}
	}
	return v4, v6, nil
}

// addressLabel marks the job's address among those of its loopback interface.
const addressLabel = "lo:job"

// giveAddresses puts the job's addresses on its loopback interface. A kernel without IPv6
// leaves the job without that.
func (s *side) giveAddresses(plan *Plan) error {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look at the job's network: %w", err)
	}
	for _, address := range []netip.Addr{plan.V4, DNS, plan.V6} {
		label := ""
		if address == plan.V4 {
			label = addressLabel
		}
		err := s.AddrAdd(lo, &netlink.Addr{IPNet: cidr(address), Flags: unix.IFA_F_NODAD, Label: label})
		if err != nil && !errors.Is(err, unix.EEXIST) && !noIPv6(cidr(address), err) {
			return fmt.Errorf("give the job the address %s: %w", address, err)
		}
	}
	return nil
}

// join makes the link of a plan, up and with its routes. The table is in force.
func join(node, job *side, plan *Plan, alias string, mtu int) error {
	link := netlink.NewVeth(netlink.LinkAttrs{Name: plan.Link, MTU: mtu, TxQLen: 1000, HardwareAddr: nodeEnd})
	link.PeerName, link.PeerNamespace, link.PeerHardwareAddr, link.PeerMTU = Inside, netlink.NsFd(job.ns), jobEnd, uint32(mtu)
	if err := node.LinkAdd(link); err != nil {
		return fmt.Errorf("make the job's link %s: %w", plan.Link, err)
	}
	made, err := node.LinkByName(plan.Link)
	if err != nil {
		return fmt.Errorf("find the job's link %s: %w", plan.Link, err)
	}
	if err := setUpNodeEnd(node, made, plan, alias); err != nil {
		return err
	}
	if err := setUpJobEnd(job, plan); err != nil {
		return err
	}
	return errors.Join(node.awaitUp(plan.Link), job.awaitUp(Inside))
}

// awaitUp waits until an interface passes packets. The kernel drops what comes in the
// moment after it was set up, and TCP would wait a second before it tries again.
func (s *side) awaitUp(name string) error {
	const patience, pause = time.Second, 200 * time.Microsecond
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		link, err := s.LinkByName(name)
		if err != nil {
			return fmt.Errorf("wait for the job's link: %w", err)
		}
		if link.Attrs().OperState == netlink.OperUp || time.Now().After(end) {
			return nil
		}
	}
}

// setUpNodeEnd routes the job's addresses to it.
func setUpNodeEnd(node *side, link netlink.Link, plan *Plan, alias string) error {
	const most = 255
	_ = node.LinkSetAlias(link, alias[:min(len(alias), most)]) // for whoever looks at the node's interfaces
	settings := map[string]string{"ipv4/conf/%s/forwarding": "1", "ipv6/conf/%s/accept_ra": "0", "ipv6/conf/%s/addr_gen_mode": "1", "ipv6/conf/%s/accept_redirects": "0", "ipv4/conf/%s/accept_redirects": "0", "ipv4/conf/%s/send_redirects": "0"}
	for name, value := range settings {
		err := os.WriteFile("/proc/sys/net/"+fmt.Sprintf(name, plan.Link), []byte(value), 0)
		if err != nil && !(strings.HasPrefix(name, "ipv6") && errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("set up the job's link: %w", err)
		}
	}
	if err := node.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up the job's link: %w", err)
	}
	addresses := []netip.Addr{plan.V4}
	if plan.Six {
		addresses = append(addresses, plan.V6)
	}
	index := link.Attrs().Index
	for _, address := range addresses {
		if err := node.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: address.AsSlice(), HardwareAddr: jobEnd}); err != nil {
			return fmt.Errorf("set up the job's link: %w", err)
		}
		// NLM_F_EXCL: of two jobs with one address, one gets it.
		err := node.RouteAdd(&netlink.Route{LinkIndex: index, Dst: cidr(address), Scope: netlink.SCOPE_LINK})
		if errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("%w: %s", ErrAddressTaken, address)
		}
		if err != nil {
			return fmt.Errorf("route %s to the job: %w", address, err)
		}
	}
	return nil
}

// ErrAddressTaken is returned, wrapped, when the address of a job is one of the host's or
// of another job on this node.
var ErrAddressTaken = errors.New("the address of the job's network is in use on this node")

// setUpJobEnd routes everything else to the node.
func setUpJobEnd(job *side, plan *Plan) error {
	link, err := job.LinkByName(Inside)
	if err != nil {
		return fmt.Errorf("find the link in the job's network: %w", err)
	}
	if err := job.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up the link in the job's network: %w", err)
	}
	ways := []struct{ gateway, own netip.Addr }{{gateway4, plan.V4}}
	if plan.Six {
		ways = append(ways, struct{ gateway, own netip.Addr }{gateway6, plan.V6})
	}
	index := link.Attrs().Index
	all := everywhere
	for i, way := range ways {
		if err := job.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: way.gateway.AsSlice(), HardwareAddr: nodeEnd}); err != nil {
			return fmt.Errorf("set up the link in the job's network: %w", err)
		}
		if err := job.RouteReplace(&netlink.Route{LinkIndex: index, Dst: all[i], Gw: way.gateway.AsSlice(), Src: way.own.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}); err != nil {
			return fmt.Errorf("route the job's packets to the node: %w", err)
		}
	}
	return nil
}

// routed says whether a route of the node's leads to this one address already.
func (s *side) routed(address netip.Addr) (bool, error) {
	found, err := s.routesLike(&netlink.Route{Dst: cidr(address), Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
	if err != nil {
		return false, fmt.Errorf("read the node's routes: %w", err)
	}
	return len(found) > 0, nil
}

// bridge gives a job without a link a default route over its loopback interface: CRIU
// makes a connection again only if there is a route to its other end. Nothing is sent, for
// the job is frozen.
func (s *side) bridge() error {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look at the job's network: %w", err)
	}
	for _, to := range everywhere {
		err := s.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK, Priority: bridgeMetric})
		if err != nil && !errors.Is(err, unix.EEXIST) && !noIPv6(to, err) {
			return fmt.Errorf("set up a save of the job's network: %w", err)
		}
	}
	return nil
}

// unbridge undoes bridge, here or on the node of the image.
func (s *side) unbridge() error {
	lo, err := s.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("look at the job's network: %w", err)
	}
	for _, to := range everywhere {
		err := s.RouteDel(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK, Priority: bridgeMetric})
		if err != nil && !errors.Is(err, unix.ESRCH) && !noIPv6(to, err) {
			return fmt.Errorf("set up the job's network after a save: %w", err)
		}
	}
	return nil
}

// bridgeMetric marks the routes of bridge: every other route comes before them.
const bridgeMetric = 1<<31 - 1

// everywhere are the default routes.
var everywhere = []*net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}}

// noIPv6 says whether an error is that of a kernel or a namespace without IPv6.
func noIPv6(to *net.IPNet, err error) bool {
	return to.IP.To4() == nil && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT))
}

// Routes are where the node's routes lead, without those to jobs.
func Routes() (prefixes []netip.Prefix, err error) {
	node, err := nodeSide()
	if err != nil {
		return nil, err
	}
	defer node.close()
	list, err := node.routes()
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		if r.Dst == nil {
			continue
		}
		if address, ok := netip.AddrFromSlice(r.Dst.IP); ok {
			bits, _ := r.Dst.Mask.Size()
			prefixes = append(prefixes, netip.PrefixFrom(address.Unmap(), bits))
		}
	}
	return prefixes, nil
}

// routes are the node's routes that do not lead to jobs.
func (s *side) routes() ([]netlink.Route, error) {
	list, err := s.routesLike(&netlink.Route{}, 0)
	if err != nil {
		return nil, fmt.Errorf("read the node's routes: %w", err)
	}
	jobs := map[int]bool{}
	links, err := s.links()
	if err != nil {
		return nil, fmt.Errorf("read the node's interfaces: %w", err)
	}
	for _, l := range links {
		if isOurs(l) {
			jobs[l.Attrs().Index] = true
		}
	}
	var rest []netlink.Route
	for _, r := range list {
		if !jobs[r.LinkIndex] {
			rest = append(rest, r)
		}
	}
	return rest, nil
}

// isOurs says whether a link leads to a job.
func isOurs(l netlink.Link) bool {
	return l.Type() == "veth" && strings.HasPrefix(l.Attrs().Name, Prefix) && strings.HasPrefix(l.Attrs().Alias, aliasPrefix)
}

// aliasPrefix begins the aliases of links, which ip link shows.
const aliasPrefix = "gleaner job "

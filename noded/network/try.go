package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/thread"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Addresses of a trial, which nobody has: they are for documentation (RFC 5737).
var (
	tryNet     = netip.MustParsePrefix("203.0.113.112/30")
	tryNode    = netip.MustParseAddr("203.0.113.113")
	tryOutside = netip.MustParseAddr("203.0.113.114")
)

const (
	tryLink     = "gltry-up"
	tryWho      = "trial" // there is one at a time
	tryPort     = 9
	tryPatience = 2 * time.Second
)

// ErrNotPassed is returned, wrapped, by Try when the rules of somebody else on this node
// let no packets of jobs pass.
var ErrNotPassed = errors.New("what a job sends does not pass through this node: its firewall drops what it forwards (nft list ruleset); let it accept what comes from and goes to interfaces named " + Prefix + "*")

// Try makes a job's network and an outside, connects from one to the other, and removes
// both. Nothing is sent beyond this machine.
func Try(ranges Ranges) (err error) {
	turn, err := lock("trial")
	if err != nil {
		return fmt.Errorf("try the way out: %w", err)
	}
	defer turn.Close()
	routes, err := Routes()
	if err != nil {
		return err
	}
	if _, leads := spec.RouteInto(tryNet, routes); leads {
		return nil // it cannot be tried; a job will tell
	}
	if err := removeTrial(); err != nil {
		return err
	}
	outside, err := newNamespace()
	if err != nil {
		return err
	}
	defer outside.close()
	job, err := newNamespace()
	if err != nil {
		return err
	}
	defer job.close()
	remove, err := tryUplink(outside)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	out := New(Config{Who: tryWho, Node: "trial", Ranges: ranges, Number: ranges.numbers() - 1}) // a restored job hardly needs the last
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.join(job); err != nil {
		return err
	}
	at := netip.AddrPortFrom(tryOutside, tryPort).String()
	var listener net.Listener
	if err := outside.within(func() (err error) {
		listener, err = net.Listen("tcp4", at)
		return err
	}); err != nil {
		return fmt.Errorf("try the way out: %w", err)
	}
	defer listener.Close()
	err = job.within(func() error {
		conn, err := net.DialTimeout("tcp4", at, tryPatience)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrNotPassed, err)
	}
	return nil
}

// removeTrial removes what a trial has left whose daemon was killed.
func removeTrial() error {
	node, err := nodeSide()
	if err != nil {
		return err
	}
	defer node.close()
	return errors.Join(node.removeLink(tryLink), node.removeLink(LinkName(tryWho)))
}

// newNamespace makes a network namespace that lasts until it is closed.
func newNamespace() (*side, error) {
	ns := netns.None()
	var err error
	thread.Discard(func() { ns, err = netns.New() })
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	s, err := sideOf(ns)
	if err != nil {
		return nil, err
	}
	lo, err := s.LinkByName("lo")
	if err == nil {
		err = s.LinkSetUp(lo)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("set up a network namespace: %w", err)
	}
	return s, nil
}

// within runs f on a thread in the namespace.
func (s *side) within(f func() error) (err error) {
	thread.Discard(func() {
		if err = unix.Setns(int(s.ns), unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	})
	return err
}

// tryUplink links the outside of a trial with the node.
func tryUplink(outside *side) (remove func() error, err error) {
	node, err := nodeSide()
	if err != nil {
		return nil, err
	}
	defer node.close()
	link := netlink.NewVeth(netlink.LinkAttrs{Name: tryLink})
	link.PeerName, link.PeerNamespace = Inside, netlink.NsFd(outside.ns)
	if err := node.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("make a link to try the way out: %w", err)
	}
	remove = removeTrial
	for _, end := range []struct {
		*side
		name    string
		address netip.Addr
	}{{node, tryLink, tryNode}, {outside, Inside, tryOutside}} {
		at, err := end.LinkByName(end.name)
		if err == nil {
			net := cidr(end.address)
			net.Mask = cidrMask(tryNet)
			err = errors.Join(end.AddrAdd(at, &netlink.Addr{IPNet: net}), end.LinkSetUp(at))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("set up a link to try the way out: %w", err), remove())
		}
	}
	if err := errors.Join(node.awaitUp(tryLink), outside.awaitUp(Inside)); err != nil {
		return nil, errors.Join(err, remove())
	}
	return remove, nil
}

func cidrMask(p netip.Prefix) net.IPMask { return net.CIDRMask(p.Bits(), p.Addr().BitLen()) }

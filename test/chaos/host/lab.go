// Package host makes several hosts of one machine, and breaks them: each host
// has its own processes, network, mounts, clocks and disk.
//
// Contract: everything lives in namespaces below one process, so that nothing
// can outlive it: Enter starts that process, and after its end, however it
// came, removes what the kernel does not remove by itself and says what is
// left. Hosts reach each other over one bridge; a wall at each host's way out
// decides which packets are lost. A disk is a file system of its own in a file,
// which can be filled and can be made to hang. It needs root and Linux 6.1 or
// later, mkfs.ext4, and a free loop device for each disk.
package host

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
)

// Addresses: the bridge is .254, host number n is .n.
const (
	network    = "10.217.83."
	bridgeHost = 254
	bridgeName = "lab"
)

// hostsFolder is where the disks are mounted, in a test's directory.
const hostsFolder = "hosts"

// Lab is the network that the hosts share, and where their files lie.
type Lab struct {
	Directory string
	bridge    *netlink.Bridge
	hosts     []*Host
}

// Open makes the network in the caller's network namespace, which must be one
// of its own. Files of hosts go into directory.
func Open(directory string) (*Lab, error) {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, fmt.Errorf("make a bridge: %w", err)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return netlink.AddrAdd(bridge, addressOf(bridgeHost)) },
		func() error { return netlink.LinkSetUp(bridge) },
		func() error { return netlink.LinkSetUp(loopback) },
		func() error { return os.MkdirAll(filepath.Join(directory, hostsFolder), 0o755) },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("set the network up: %w", err)
		}
	}
	return &Lab{Directory: directory, bridge: bridge}, nil
}

// Outside is the address from which the hosts hear of who is on none of them.
func (l *Lab) Outside() net.IP { return ipOf(bridgeHost) }

// Hosts are all hosts, in the order they were made.
func (l *Lab) Hosts() []*Host { return l.hosts }

func ipOf(number int) net.IP { return net.ParseIP(fmt.Sprintf("%s%d", network, number)).To4() }

func addressOf(number int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: ipOf(number), Mask: net.CIDRMask(24, 32)}}
}

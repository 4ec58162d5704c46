package noded

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/gangnet"
	"github.com/gleaner-hpc/gleaner/noded/network"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
)

// NetworkConfig is section [network] of the configuration: the way out of jobs with a
// network of their own.
type NetworkConfig struct {
	Closed bool           // there is none on this node
	Ranges network.Ranges // of their addresses; invalid = one is chosen
	// WireGuard carries what goes between the nodes of a job; "" = the kernel's if it can.
	WireGuard gangnet.Carrier
}

type networkFile struct {
	WayOut    string `toml:"way_out"`
	Range     string `toml:"range"`
	Range6    string `toml:"range6"`
	WireGuard string `toml:"wireguard"`
}

// Words of network.way_out.
const (
	wayOutAuto = "auto"
	wayOutNone = "none"
)

// wireGuardAuto is network.wireguard where nothing is said.
const wireGuardAuto = "auto"

func (f *configFile) checkNetwork(c *Config) error {
	section := &f.Network
	switch section.WayOut {
	case "", wayOutAuto:
	case wayOutNone:
		c.Network.Closed = true
	default:
		return fmt.Errorf("network.way_out %q: write %q, so that jobs with a network of their own reach the outside through this node where that works, or %q", shorten(section.WayOut), wayOutAuto, wayOutNone)
	}
	switch section.WireGuard {
	case "", wireGuardAuto:
	case string(gangnet.Userspace):
		c.Network.WireGuard = gangnet.Userspace
	default:
		return fmt.Errorf("network.wireguard %q: write %q, so that the kernel encrypts what goes between the nodes of a job where it can, or %q", shorten(section.WireGuard), wireGuardAuto, gangnet.Userspace)
	}
	for _, r := range []struct {
		key, text string
		check     func(netip.Prefix) error
		into      *netip.Prefix
	}{
		{"network.range", section.Range, network.CheckRange4, &c.Network.Ranges.V4},
		{"network.range6", section.Range6, network.CheckRange6, &c.Network.Ranges.V6},
	} {
		if r.text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(r.text)
		if refused := r.check(prefix); err != nil || refused != nil {
			return fmt.Errorf("%s %q: %w", r.key, shorten(r.text), errors.Join(refused))
		}
		*r.into = prefix
	}
	return nil
}

// TryWayOut finds out whether packets of jobs pass through this node, and which addresses
// their jobs have. It tries twice: what the daemon finds at its start holds until the next
// one, and a machine that stands still for two seconds is no firewall.
func (c *NetworkConfig) TryWayOut() (network.Ranges, error) {
	routes, err := network.Routes()
	if err != nil {
		return network.Ranges{}, err
	}
	ranges, err := network.ChooseRanges(c.Ranges, routes)
	if err != nil {
		return network.Ranges{}, err
	}
	if network.Try(ranges) == nil {
		return ranges, nil
	}
	return ranges, network.Try(ranges)
}

// tellNetwork answers what supervisors are told.
func tellNetwork(c *NetworkConfig, log *slog.Logger) bundle.Network {
	told := findWayOut(c, log)
	told.WireGuard = c.WireGuard
	return told
}

// findWayOut is the part of it that is about the way out.
func findWayOut(c *NetworkConfig, log *slog.Logger) bundle.Network {
	if c.Closed {
		return bundle.Network{WhyNot: "network.way_out is none in this node's configuration"}
	}
	if err := network.Tidy(); err != nil {
		log.Warn("the node passes on packets for jobs that are gone: see the error, and restart gnoded once it is mended", "error", err)
	}
	ranges, err := c.TryWayOut()
	if err != nil {
		log.Warn("jobs with a network of their own reach nothing outside of it: see the error for what would help", "error", err)
		return bundle.Network{WhyNot: strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	log.Info("jobs with a network of their own reach the outside through this node", "range", ranges.V4, "range6", ranges.V6)
	return bundle.Network{Ranges: ranges}
}

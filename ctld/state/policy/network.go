package policy

import (
	"cmp"
	"slices"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Lends reports whether some node of some partitions has an owner.
func (p *Policy) Lends(partitions []string) bool {
	return slices.ContainsFunc(partitions, func(name string) bool {
		partition, known := p.Partition(name)
		if !known {
			return false
		}
		for node := range p.owners {
			if partition.Has(node) {
				return true
			}
		}
		return false
	})
}

// NetworkRule is the site's or a partition's rule for the network of its jobs.
// A larger one is stricter.
type NetworkRule uint8

// Network rules. Numbers are persisted: append only.
const (
	NetworkAsSite      NetworkRule = 0 // of a partition; of the site: NetworkHost
	NetworkHost        NetworkRule = 1 // jobs share the node's, unless they ask for their own
	NetworkPrivate     NetworkRule = 2 // jobs have their own, unless they ask for the node's
	NetworkPrivateOnly NetworkRule = 3 // jobs have their own
)

// NetworkRuleOf is the number of a word; wrong, which is refused, for any
// other.
func NetworkRuleOf(word string) NetworkRule {
	return NetworkRule(numberOf(slices.Concat([]string{""}, spec.NetworkRules), word))
}

// String is the word of cluster.toml; "" for none of its own.
func (r NetworkRule) String() string {
	if r == NetworkAsSite {
		return ""
	}
	return wordOf(spec.NetworkRules, uint8(r-1))
}

// SiteNetwork is the rule of partitions without one of their own.
func (p *Policy) SiteNetwork() NetworkRule { return cmp.Or(p.Network, NetworkHost) }

// NetworkOf is the rule that is in force in a partition.
func (p *Policy) NetworkOf(partition *Partition) NetworkRule {
	return cmp.Or(partition.Network, p.SiteNetwork())
}

// normalizeNetwork refuses unknown rules.
func (p *Policy) normalizeNetwork() error {
	if p.Network == NetworkHost {
		p.Network = NetworkAsSite
	}
	if p.Network > NetworkPrivateOnly {
		_, err := spec.NetworkRule("?")
		return err
	}
	if err := p.GangRange.normalize(); err != nil {
		return err
	}
	return p.Outside.normalize()
}

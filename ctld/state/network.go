package state

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

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

// networkRuleOf is the number of a word; wrong, which is refused, for any
// other.
func networkRuleOf(word string) NetworkRule {
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

// allowsNetwork reports whether an accepted job may start in a partition, whose
// rule may have changed since.
func (p *Policy) allowsNetwork(partition *Partition, job *Job) bool {
	return !job.needsHost() || p.NetworkOf(partition) != NetworkPrivateOnly
}

// chooseNetwork gives a job that requests no network the one of its partitions,
// and the job keeps it whatever the policy says later. If it names several
// partitions, the strictest rule counts: the job is one, wherever it starts. Where some
// nodes have owners and no rule demands anything, each start decides: see networkFor.
func (p *Policy) chooseNetwork(asked *Spec) *Refusal {
	strictest, whose := NetworkHost, ""
	for _, name := range asked.Partitions {
		partition, _ := p.Partition(name)
		if rule := p.NetworkOf(partition); rule > strictest {
			strictest, whose = rule, name
		}
	}
	said := asked.Network == pb.Network_NETWORK_HOST || asked.Network == pb.Network_NETWORK_PRIVATE
	switch {
	case asked.Network == pb.Network_NETWORK_PRIVATE:
	case !said && (strictest > NetworkHost || asked.Checkpoint.Connections == spec.ConnectionsClose && p.lends(asked.Partitions)):
		asked.Network = pb.Network_NETWORK_PRIVATE
	case !said && p.lends(asked.Partitions):
		asked.Network = pb.Network_NETWORK_AUTO
	case !said:
		asked.Network = pb.Network_NETWORK_HOST
	case strictest == NetworkPrivateOnly:
		return refuse(Denied, "--network=host is not allowed in partition %s: its jobs have a network of their own. Ask for --network=private (gcontrol update: Network=private), or for partitions without %s", whose, whose)
	}
	if asked.Network == pb.Network_NETWORK_HOST && asked.Checkpoint.Connections == spec.ConnectionsClose {
		return refuse(Invalid, "--checkpoint-connections=%s is for jobs with a network of their own, and this one shares its node's, where no connection can be saved: add --network=private", spec.ConnectionsClose)
	}
	return nil
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

package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// allowsNetwork reports whether an accepted job may start in a partition, whose
// rule may have changed since.
func allowsNetwork(p *policy.Policy, partition *policy.Partition, job *Job) bool {
	return !job.needsHost() || p.NetworkOf(partition) != policy.NetworkPrivateOnly
}

// chooseNetwork gives a job that requests no network the one of its partitions,
// and the job keeps it whatever the policy says later. If it names several
// partitions, the strictest rule counts: the job is one, wherever it starts. Where some
// nodes have owners and no rule demands anything, each start decides: see networkFor.
func chooseNetwork(p *policy.Policy, asked *Spec) *Refusal {
	strictest, whose := policy.NetworkHost, ""
	for _, name := range asked.Partitions {
		partition, _ := p.Partition(name)
		if rule := p.NetworkOf(partition); rule > strictest {
			strictest, whose = rule, name
		}
	}
	said := asked.Network == pb.Network_NETWORK_HOST || asked.Network == pb.Network_NETWORK_PRIVATE
	switch {
	case asked.Network == pb.Network_NETWORK_PRIVATE:
	case !said && (strictest > policy.NetworkHost || asked.Checkpoint.Connections == spec.ConnectionsClose && p.Lends(asked.Partitions)):
		asked.Network = pb.Network_NETWORK_PRIVATE
	case !said && p.Lends(asked.Partitions):
		asked.Network = pb.Network_NETWORK_AUTO
	case !said:
		asked.Network = pb.Network_NETWORK_HOST
	case strictest == policy.NetworkPrivateOnly:
		return refuse(Denied, "--network=host is not allowed in partition %s: its jobs have a network of their own. Ask for --network=private (gcontrol update: Network=private), or for partitions without %s", whose, whose)
	}
	if asked.Network == pb.Network_NETWORK_HOST && asked.Checkpoint.Connections == spec.ConnectionsClose {
		return refuse(Invalid, "--checkpoint-connections=%s is for jobs with a network of their own, and this one shares its node's, where no connection can be saved: add --network=private", spec.ConnectionsClose)
	}
	return nil
}

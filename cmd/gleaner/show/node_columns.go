package show

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NodeTable is what can be shown of nodes. Letters, names and headers are
// those of sinfo(1); x and the last ones are Gleaner's own.
var NodeTable = format.NewTable(slices.Concat(partitionFields(), countFields(), hardwareFields(), conditionFields(), gpuFields()))

type nodeField = format.Field[*NodeRow]

// ofPartition makes a field of what the partition says; "n/a" without one.
func ofPartition(letter byte, header string, value func(*pb.Partition) string, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: func(r *NodeRow) string {
		if r.Partition == nil {
			return "n/a"
		}
		return value(r.Partition)
	}}
}

// ofNodes makes a field of any function of the row.
func ofNodes(letter byte, header string, value func(*NodeRow) string, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: value}
}

// fixed makes a field for what this scheduler has only one value of.
func fixed(letter byte, header, value string, names ...string) nodeField {
	return ofNodes(letter, header, func(*NodeRow) string { return value }, names...)
}

// sized makes a field that is the least of the nodes' numbers.
func sized(letter byte, header string, value func(*pb.Node) uint64, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: least(value),
		Compare: func(a, b *NodeRow) int { return cmp.Compare(value(a.first()), value(b.first())) }}
}

func partitionFields() []nodeField {
	name := func(p *pb.Partition) string { return p.Name }
	return []nodeField{
		ofPartition('a', "AVAIL", func(p *pb.Partition) string {
			if p.Up {
				return "up"
			}
			return "down"
		}, "Available"),
		{Letter: 'P', Names: []string{"Partition"}, Header: "PARTITION",
			Value: ofPartition(0, "", name).Value,
			Mark: func(r *NodeRow) string {
				if r.Partition.GetIsDefault() {
					return "*"
				}
				return ""
			}},
		ofPartition('R', "PARTITION", name, "PartitionName"),
		ofPartition('l', "TIMELIMIT", func(p *pb.Partition) string { return infinite(p.MaxTimeS) }, "Time"),
		ofPartition('L', "DEFAULTTIME", func(p *pb.Partition) string {
			if p.DefaultTimeS == 0 {
				return "n/a"
			}
			return infinite(p.DefaultTimeS)
		}, "DefaultTime"),
		ofPartition('p', "PRIO_TIER", func(p *pb.Partition) string { return Digits(p.PriorityTier) }, "PriorityTier", "Priority"),
		ofPartition('g', "GROUPS", func(p *pb.Partition) string {
			return cmp.Or(strings.Join(p.AllowGroups, ","), "all")
		}, "Groups"),
		fixed('r', "ROOT", "no", "Root"),
		fixed('h', "OVERSUBSCRIBE", "NO", "OverSubscribe"),
		fixed('s', "JOB_SIZE", "1-infinite", "Size"),
		fixed('S', "ALLOCNODES", "all", "AllocNodes"),
		ofPartition('I', "PRIO_JOB_FACTOR", func(p *pb.Partition) string { return Digits(max(p.PriorityJobFactor, 1)) }, "PriorityJobFactor"),
		ofPartition('M', "PREEMPT_MODE", func(p *pb.Partition) string { return strings.ToUpper(cmp.Or(p.PreemptMode, "off")) }, "PreemptMode"),
		fixed('B', "MAX_CPUS_PER_NODE", "UNLIMITED", "MaxCPUsPerNode"),
		fixed('V', "CLUSTER", "N/A", "Cluster"),
	}
}

func countFields() []nodeField {
	return []nodeField{
		ofNodes('A', "NODES(A/I)", func(r *NodeRow) string {
			t := r.nodeTally()
			return Digits(t.allocated) + "/" + Digits(t.idle)
		}, "NodeAI"),
		ofNodes('F', "NODES(A/I/O/T)", func(r *NodeRow) string { return r.nodeTally().String() }, "NodeAIOT"),
		ofNodes('C', "CPUS(A/I/O/T)", func(r *NodeRow) string { return r.cpuTally().String() }, "CPUsState"),
		{Letter: 'D', Names: []string{"Nodes"}, Header: "NODES", Value: func(r *NodeRow) string { return Digits(len(r.Nodes)) },
			Compare: func(a, b *NodeRow) int { return cmp.Compare(len(a.Nodes), len(b.Nodes)) }},
		{Letter: 'N', Names: []string{"NodeList"}, Header: "NODELIST",
			Value:   func(r *NodeRow) string { return r.names((*pb.Node).GetName) },
			Compare: compareNodeNames},
		ofNodes('n', "HOSTNAMES", func(r *NodeRow) string { return r.names(hostName) }, "NodeHost"),
		ofNodes('o', "NODE_ADDR", func(r *NodeRow) string { return r.names(nodeAddress) }, "NodeAddr"),
	}
}

func hardwareFields() []nodeField {
	sct := func(n *pb.Node) string {
		return Digits(n.GetInventory().GetSockets()) + ":" + Digits(n.GetInventory().GetCoresPerSocket()) + ":" + Digits(n.GetInventory().GetThreadsPerCore())
	}
	features := func(n *pb.Node) string { return OrNull(strings.Join(n.GetInventory().GetFeatures(), ",")) }
	return []nodeField{
		sized('c', "CPUS", func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetCpus()) }, "CPUs"),
		sized('m', "MEMORY", func(n *pb.Node) uint64 { return n.GetInventory().GetMemoryBytes() >> 20 }, "Memory"),
		sized(0, "ALLOCMEM", func(n *pb.Node) uint64 { return n.AllocatedMemoryBytes >> 20 }, "AllocMem"),
		sized('X', "SOCKETS", func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetSockets()) }, "Sockets"),
		sized('Y', "CORES", func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetCoresPerSocket()) }, "Cores"),
		sized('Z', "THREADS", func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetThreadsPerCore()) }, "Threads"),
		ofNodes('z', "S:C:T", like(sct), "SocketCoreThread"),
		ofNodes('f', "AVAIL_FEATURES", like(features), "Features"),
		ofNodes('b', "ACTIVE_FEATURES", like(features), "features_act"),
		ofNodes('v', "VERSION", like(func(n *pb.Node) string { return cmp.Or(n.GetInventory().GetVersion(), "n/a") }), "Version"),
		sized('d', "TMP_DISK", func(n *pb.Node) uint64 { return n.GetInventory().GetTmpBytes() >> 20 }, "Disk"),
		ofLoad('e', "FREE_MEM", freeMemory, "FreeMem"),
		ofLoad('O', "CPU_LOAD", cpuLoad, "CPUsLoad"),
		fixed('w', "WEIGHT", "1", "Weight"),
	}
}

func conditionFields() []nodeField {
	byState := func(a, b *NodeRow) int { return cmp.Compare(stateWeight(a.first()), stateWeight(b.first())) }
	mark := func(r *NodeRow) string { return stateMark(r.first()) }
	return []nodeField{
		{Letter: 't', Names: []string{"StateCompact"}, Header: "STATE", Value: like(shortState), Mark: mark, Compare: byState},
		{Letter: 'T', Names: []string{"StateLong"}, Header: "STATE", Value: like(LongState), Mark: mark, Compare: byState},
		ofNodes(0, "STATECOMPLETE", like(func(n *pb.Node) string { return strings.ToLower(fullState(n)) }), "StateComplete"),
		ofNodes('E', "REASON", like(nodeReason), "Reason"),
		{Letter: 'H', Names: []string{"TimeStamp"}, Header: "TIMESTAMP", Value: func(r *NodeRow) string {
			return r.view.Stamp(r.first().ReasonMs, "Unknown")
		}},
		ofNodes(0, "OWNER", like(func(n *pb.Node) string { return cmp.Or(n.OwnerAccount, "N/A") }), "Owner"),
		ofNodes('u', "USER", like(func(n *pb.Node) string { return cmp.Or(n.ReasonUser, "Unknown") }), "User"),
		ofNodes('U', "USER", like(func(n *pb.Node) string { return cmp.Or(n.ReasonUser, "Unknown") }), "UserLong"),
	}
}

func gpuFields() []nodeField {
	return []nodeField{
		ofNodes('x', "GPUS(F/T)", (*NodeRow).gpus, "GPUs"),
		ofNodes('G', "GRES", like(func(n *pb.Node) string { return OrNull(nodeGres(n)) }), "Gres"),
		ofNodes(0, "GRES_USED", like(func(n *pb.Node) string { return OrNull(nodeGresUsed(n)) }), "GresUsed"),
		sized(0, "REAL_CPUS", func(n *pb.Node) uint64 { return uint64(n.GetInventory().GetRealCpus()) }, "RealCPUs"),
	}
}

// infinite is a time limit as sinfo writes it.
func infinite(seconds uint32) string {
	if seconds == spec.Unlimited {
		return "infinite"
	}
	return spec.FormatTime(seconds)
}

// compareNodeNames orders rows by their first node, in the order in which the
// controller lists nodes.
func compareNodeNames(a, b *NodeRow) int {
	return cmp.Compare(NaturalKey(a.first().Name), NaturalKey(b.first().Name))
}

package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// The formats of ginfo: those of sinfo(1), and last the GPUs, free and all.
const (
	infoFormat         = "%#P %.5a %.10l %.6D %.6t %#N %x"
	infoSummaryFormat  = "%#P %.5a %.10l %.16F  %#N %x"
	infoLongFormat     = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %#N %x"
	infoNodeFormat     = "%#N %.6D %#P %6t %x"
	infoLongNodeFormat = "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E %x"
	infoReasonFormat   = "%20E %9u %19H %N"
	infoLongReason     = "%20E %12U %19H %6t %N"
)

// nodeTable is what can be shown of nodes. Letters, names and headers are
// those of sinfo(1); x and the last ones are Gleaner's own.
var nodeTable = format.NewTable(slices.Concat(partitionFields(), countFields(), hardwareFields(), conditionFields(), gpuFields()))

type nodeField = format.Field[*nodeRow]

// ofPartition makes a field of what the partition says; "n/a" without one.
func ofPartition(letter byte, header string, value func(*pb.Partition) string, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: func(r *nodeRow) string {
		if r.partition == nil {
			return "n/a"
		}
		return value(r.partition)
	}}
}

// ofNodes makes a field of any function of the row.
func ofNodes(letter byte, header string, value func(*nodeRow) string, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: value}
}

// fixed makes a field for what this scheduler has only one value of.
func fixed(letter byte, header, value string, names ...string) nodeField {
	return ofNodes(letter, header, func(*nodeRow) string { return value }, names...)
}

// sized makes a field that is the least of the nodes' numbers.
func sized(letter byte, header string, value func(*pb.Node) uint64, names ...string) nodeField {
	return nodeField{Letter: letter, Names: names, Header: header, Value: least(value),
		Compare: func(a, b *nodeRow) int { return cmp.Compare(value(a.first()), value(b.first())) }}
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
			Mark: func(r *nodeRow) string {
				if r.partition.GetIsDefault() {
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
		ofPartition('p', "PRIO_TIER", func(p *pb.Partition) string { return digits(p.PriorityTier) }, "PriorityTier", "Priority"),
		ofPartition('g', "GROUPS", func(p *pb.Partition) string {
			return cmp.Or(strings.Join(p.AllowGroups, ","), "all")
		}, "Groups"),
		fixed('r', "ROOT", "no", "Root"),
		fixed('h', "OVERSUBSCRIBE", "NO", "OverSubscribe"),
		fixed('s', "JOB_SIZE", "1-infinite", "Size"),
		fixed('S', "ALLOCNODES", "all", "AllocNodes"),
		ofPartition('I', "PRIO_JOB_FACTOR", func(p *pb.Partition) string { return digits(max(p.PriorityJobFactor, 1)) }, "PriorityJobFactor"),
		ofPartition('M', "PREEMPT_MODE", func(p *pb.Partition) string { return strings.ToUpper(cmp.Or(p.PreemptMode, "off")) }, "PreemptMode"),
		fixed('B', "MAX_CPUS_PER_NODE", "UNLIMITED", "MaxCPUsPerNode"),
		fixed('V', "CLUSTER", "N/A", "Cluster"),
	}
}

func countFields() []nodeField {
	return []nodeField{
		ofNodes('A', "NODES(A/I)", func(r *nodeRow) string {
			t := r.nodeTally()
			return digits(t.allocated) + "/" + digits(t.idle)
		}, "NodeAI"),
		ofNodes('F', "NODES(A/I/O/T)", func(r *nodeRow) string { return r.nodeTally().String() }, "NodeAIOT"),
		ofNodes('C', "CPUS(A/I/O/T)", func(r *nodeRow) string { return r.cpuTally().String() }, "CPUsState"),
		{Letter: 'D', Names: []string{"Nodes"}, Header: "NODES", Value: func(r *nodeRow) string { return digits(len(r.nodes)) },
			Compare: func(a, b *nodeRow) int { return cmp.Compare(len(a.nodes), len(b.nodes)) }},
		{Letter: 'N', Names: []string{"NodeList"}, Header: "NODELIST",
			Value:   func(r *nodeRow) string { return r.names((*pb.Node).GetName) },
			Compare: compareNodeNames},
		ofNodes('n', "HOSTNAMES", func(r *nodeRow) string { return r.names(hostName) }, "NodeHost"),
		ofNodes('o', "NODE_ADDR", func(r *nodeRow) string { return r.names(nodeAddress) }, "NodeAddr"),
	}
}

func hardwareFields() []nodeField {
	sct := func(n *pb.Node) string {
		return digits(n.GetInventory().GetSockets()) + ":" + digits(n.GetInventory().GetCoresPerSocket()) + ":" + digits(n.GetInventory().GetThreadsPerCore())
	}
	features := func(n *pb.Node) string { return orNull(strings.Join(n.GetInventory().GetFeatures(), ",")) }
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
		fixed('d', "TMP_DISK", "0", "Disk"),
		fixed('e', "FREE_MEM", "N/A", "FreeMem"),
		fixed('O', "CPU_LOAD", "N/A", "CPUsLoad"),
		fixed('w', "WEIGHT", "1", "Weight"),
	}
}

func conditionFields() []nodeField {
	byState := func(a, b *nodeRow) int { return cmp.Compare(stateWeight(a.first()), stateWeight(b.first())) }
	mark := func(r *nodeRow) string { return silentMark(r.first()) }
	return []nodeField{
		{Letter: 't', Names: []string{"StateCompact"}, Header: "STATE", Value: like(shortState), Mark: mark, Compare: byState},
		{Letter: 'T', Names: []string{"StateLong"}, Header: "STATE", Value: like(longState), Mark: mark, Compare: byState},
		ofNodes(0, "STATECOMPLETE", like(func(n *pb.Node) string { return strings.ToLower(fullState(n)) }), "StateComplete"),
		ofNodes('E', "REASON", like(nodeReason), "Reason"),
		{Letter: 'H', Names: []string{"TimeStamp"}, Header: "TIMESTAMP", Value: func(r *nodeRow) string {
			return r.view.stamp(r.first().ReasonMs, "Unknown")
		}},
		ofNodes('u', "USER", like(func(n *pb.Node) string { return cmp.Or(n.ReasonUser, "Unknown") }), "User"),
		ofNodes('U', "USER", like(func(n *pb.Node) string { return cmp.Or(n.ReasonUser, "Unknown") }), "UserLong"),
	}
}

func gpuFields() []nodeField {
	return []nodeField{
		ofNodes('x', "GPUS(F/T)", (*nodeRow).gpus, "GPUs"),
		ofNodes('G', "GRES", like(func(n *pb.Node) string { return orNull(nodeGres(n)) }), "Gres"),
		ofNodes(0, "GRES_USED", like(func(n *pb.Node) string { return orNull(nodeGresUsed(n)) }), "GresUsed"),
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

func hostName(n *pb.Node) string { return cmp.Or(n.GetInventory().GetHostName(), n.Name) }

func nodeAddress(n *pb.Node) string { return cmp.Or(n.GetInventory().GetAddress(), hostName(n)) }

// compareNodeNames orders rows by their first node, in the order in which the
// controller lists nodes.
func compareNodeNames(a, b *nodeRow) int {
	return cmp.Compare(naturalKey(a.first().Name), naturalKey(b.first().Name))
}

// naturalKey makes "n2" sort before "n10": every run of digits is preceded by
// its length.
func naturalKey(name string) string {
	var key strings.Builder
	for i := 0; i < len(name); {
		j := i
		for j < len(name) && name[j] >= '0' && name[j] <= '9' {
			j++
		}
		if j > i {
			run := strings.TrimLeft(name[i:j], "0")
			key.WriteByte('0')
			key.WriteByte(byte(min(len(run), 255)))
			key.WriteString(run)
			i = j
			continue
		}
		key.WriteByte(name[i])
		i++
	}
	return key.String()
}

package show

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// PartitionRecordOf is a partition as "scontrol show partition" prints it.
func PartitionRecordOf(p *pb.Partition, nodes []*pb.Node, view *View) *Record {
	r := &Record{}
	names, cpus := partitionNodes(p, nodes)
	defaultTime, memory := "NONE", "DefMemPerNode=UNLIMITED"
	if p.DefaultTimeS != 0 {
		defaultTime = clockText(p.DefaultTimeS)
	}
	if p.DefaultMemoryPerCpuBytes > 0 {
		memory = Item("DefMemPerCPU", Digits(p.DefaultMemoryPerCpuBytes>>20))
	}
	overSubscribe := "NO"
	if p.Exclusive == "node" {
		overSubscribe = "EXCLUSIVE" // Slurm's word for a partition that gives whole nodes
	}
	r.Line(Item("PartitionName", p.Name))
	r.Line(Item("AllowGroups", cmp.Or(strings.Join(p.AllowGroups, ","), "ALL")), Item("AllowAccounts", cmp.Or(strings.Join(p.AllowAccounts, ","), "ALL")), Item("AllowQos", cmp.Or(strings.Join(p.AllowQos, ","), "ALL")))
	r.Line("AllocNodes=ALL", Item("Default", yesNo(p.IsDefault)), Item("QoS", cmp.Or(p.Qos, "N/A")))
	r.Line(Item("DefaultTime", defaultTime), Item("DisableRootJobs", yesNo(!p.AllowRootJobs)), Item("ExclusiveUser", yesNo(p.Exclusive == "user")), Item("GraceTime", Digits(p.GraceTimeS)), "Hidden=NO")
	r.Line("MaxNodes=UNLIMITED", Item("MaxTime", clockText(p.MaxTimeS)), "MinNodes=0", "LLN=NO", "MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerSocket=UNLIMITED")
	r.Line(Item("Nodes", OrNull(spec.FormatHostList(names))))
	r.Line(Item("PriorityJobFactor", Digits(max(p.PriorityJobFactor, 1))), Item("PriorityTier", Digits(p.PriorityTier)), "RootOnly=NO", "ReqResv=NO", Item("OverSubscribe", overSubscribe))
	r.Line("OverTimeLimit=NONE", Item("PreemptMode", strings.ToUpper(cmp.Or(p.PreemptMode, "off"))), Item("LeaseAction", cmp.Or(p.LeaseAction, "run-on")), Item("Network", cmp.Or(p.Network, "host")), Item("ConfiguredNodes", OrNull(p.Nodes)))
	r.Line(Item("State", partitionState(p)), Item("TotalCPUs", Digits(cpus)), Item("TotalNodes", Digits(len(names))), "SelectTypeParameters=NONE")
	r.Line(Item("JobDefaults", OrNull(jobDefaults(p))))
	r.Line(memory, "MaxMemPerNode=UNLIMITED")
	r.Line(Item("TRES", partitionTres(p, nodes, view)))
	if o := p.Outside; o != nil {
		r.Line(Item("NetworkAllow", cmp.Or(strings.Join(o.Allow, ","), spec.Everywhere)), Item("NetworkRate", cmp.Or(spec.FormatRate(o.BytesPerSecond), "unlimited")))
	}
	if p.BfCheckpoint {
		r.Line("BfCheckpoint=YES")
	}
	if p.NestedContainers {
		r.Line("NestedContainers=YES")
	}
	if weights := spec.FormatBillingWeights(p.TresBillingWeights); weights != "" {
		r.Line(Item("TRESBillingWeights", weights))
	}
	return r
}

// partitionTres is what the nodes of a partition have together.
func partitionTres(p *pb.Partition, nodes []*pb.Node, view *View) string {
	var cpus uint32
	var memory uint64
	count, gpus := 0, 0
	models := map[string]int{}
	for _, node := range nodes {
		if MemberOf(node, p.GetName()) {
			count++
			cpus += node.GetInventory().GetCpus()
			memory += node.GetInventory().GetMemoryBytes()
			for _, gpu := range wholeGPUs(node) {
				gpus++
				models[gpu.GetModel()]++
			}
		}
	}
	billing := float64(cpus)
	if weights := p.GetTresBillingWeights(); len(weights) > 0 {
		billing = weights["cpu"]*float64(cpus) + weights["mem"]*float64(memory)/(1<<30) + weights["node"]*float64(count) + weights["gres/gpu"]*float64(gpus)
		for _, model := range slices.Sorted(maps.Keys(models)) {
			billing += weights["gres/gpu:"+model] * float64(models[model])
		}
	}
	text := fmt.Sprintf("cpu=%d,mem=%s,node=%d,billing=%.0f", cpus, view.memory(memory), count, math.Floor(billing))
	if gpus > 0 {
		text += ",gres/gpu=" + Digits(gpus)
	}
	return text
}

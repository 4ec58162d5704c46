package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func showPartition(c *controlRun, id string) error {
	partitions, err := c.client.listPartitions(c.inv.Context)
	if err != nil {
		return loadError(c.inv, loadPartitions, err)
	}
	nodes, err := c.client.listNodes(c.inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return loadError(c.inv, loadNodes, err)
	}
	if id != "" {
		partitions = slices.DeleteFunc(partitions, func(p *pb.Partition) bool { return p.Name != id })
		if len(partitions) == 0 {
			fmt.Fprintf(c.inv.Stdout, "Partition %s not found\n", id)
			return option.Exit(1)
		}
	}
	if c.json != jsonNone {
		records := make([]*partitionRecord, 0, len(partitions))
		for _, partition := range partitions {
			records = append(records, c.json.partition(partition, nodes))
		}
		return writeJSON(c.inv, c.json, "partitions", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, partition := range partitions {
		partitionRecordOf(partition, nodes, c.view).write(out, c.oneLine)
	}
	return out.Flush()
}

// partitionRecordOf is a partition as "scontrol show partition" prints it.
func partitionRecordOf(p *pb.Partition, nodes []*pb.Node, view *view) *record {
	r := &record{}
	names, cpus := partitionNodes(p, nodes)
	defaultTime, memory, state := "NONE", "DefMemPerNode=UNLIMITED", "DOWN"
	if p.DefaultTimeS != 0 {
		defaultTime = clockText(p.DefaultTimeS)
	}
	if p.DefaultMemoryPerCpuBytes > 0 {
		memory = item("DefMemPerCPU", digits(p.DefaultMemoryPerCpuBytes>>20))
	}
	if p.Up {
		state = "UP"
	}
	overSubscribe := "NO"
	if p.Exclusive == "node" {
		overSubscribe = "EXCLUSIVE" // Slurm's word for a partition that gives whole nodes
	}
	r.line(item("PartitionName", p.Name))
	r.line(item("AllowGroups", cmp.Or(strings.Join(p.AllowGroups, ","), "ALL")), item("AllowAccounts", cmp.Or(strings.Join(p.AllowAccounts, ","), "ALL")), item("AllowQos", cmp.Or(strings.Join(p.AllowQos, ","), "ALL")))
	r.line("AllocNodes=ALL", item("Default", yesNo(p.IsDefault)), item("QoS", cmp.Or(p.Qos, "N/A")))
	r.line(item("DefaultTime", defaultTime), item("DisableRootJobs", yesNo(!p.AllowRootJobs)), item("ExclusiveUser", yesNo(p.Exclusive == "user")), item("GraceTime", digits(p.GraceTimeS)), "Hidden=NO")
	r.line("MaxNodes=UNLIMITED", item("MaxTime", clockText(p.MaxTimeS)), "MinNodes=0", "LLN=NO", "MaxCPUsPerNode=UNLIMITED")
	r.line(item("Nodes", orNull(spec.FormatHostList(names))))
	r.line(item("PriorityJobFactor", digits(max(p.PriorityJobFactor, 1))), item("PriorityTier", digits(p.PriorityTier)), "RootOnly=NO", "ReqResv=NO", item("OverSubscribe", overSubscribe))
	r.line("OverTimeLimit=NONE", item("PreemptMode", strings.ToUpper(cmp.Or(p.PreemptMode, "off"))), item("LeaseAction", cmp.Or(p.LeaseAction, "run-on")), item("ConfiguredNodes", orNull(p.Nodes)))
	r.line(item("State", state), item("TotalCPUs", digits(cpus)), item("TotalNodes", digits(len(names))), "SelectTypeParameters=NONE")
	r.line("JobDefaults=(null)")
	r.line(memory, "MaxMemPerNode=UNLIMITED")
	r.line(item("TRES", partitionTres(p, nodes, view)))
	if weights := spec.FormatBillingWeights(p.TresBillingWeights); weights != "" {
		r.line(item("TRESBillingWeights", weights))
	}
	return r
}

// partitionTres is what the nodes of a partition have together.
func partitionTres(p *pb.Partition, nodes []*pb.Node, view *view) string {
	var cpus uint32
	var memory uint64
	count, gpus := 0, 0
	models := map[string]int{}
	for _, node := range nodes {
		if memberOf(node, p.Name) {
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
	if weights := p.TresBillingWeights; len(weights) > 0 {
		billing = weights["cpu"]*float64(cpus) + weights["mem"]*float64(memory)/(1<<30) + weights["node"]*float64(count) + weights["gres/gpu"]*float64(gpus)
		for _, model := range slices.Sorted(maps.Keys(models)) {
			billing += weights["gres/gpu:"+model] * float64(models[model])
		}
	}
	text := fmt.Sprintf("cpu=%d,mem=%s,node=%d,billing=%.0f", cpus, view.memory(memory), count, math.Floor(billing))
	if gpus > 0 {
		text += ",gres/gpu=" + digits(gpus)
	}
	return text
}

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func showNode(c *controlRun, id string) error {
	nodes, err := c.client.listNodes(c.inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return loadError(c.inv, loadNodes, err)
	}
	slices.SortStableFunc(nodes, func(a, b *pb.Node) int { return cmp.Compare(naturalKey(a.Name), naturalKey(b.Name)) })
	var unknown []string
	if id != "" {
		wanted, err := spec.ParseHostList(id)
		if err != nil {
			return c.inv.Fail("%w", err)
		}
		if nodes, unknown = pickNodes(nodes, wanted); len(unknown) > 0 && c.json != jsonNone {
			return c.inv.Fail("Node %s not found", strings.Join(unknown, ","))
		}
	}
	if c.json != jsonNone {
		records := make([]*nodeRecord, 0, len(nodes))
		for _, node := range nodes {
			records = append(records, c.json.node(node, c.view))
		}
		return writeJSON(c.inv, c.json, "nodes", records)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, node := range nodes {
		nodeRecordOf(node, c.view, c.details).write(out, c.oneLine)
	}
	for _, name := range unknown {
		fmt.Fprintf(out, "Node %s not found\n", name)
	}
	if len(nodes) == 0 && id == "" {
		fmt.Fprintln(out, "No nodes in the system")
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(unknown) > 0 {
		return option.Exit(1)
	}
	return nil
}

// pickNodes finds nodes by name, in the order wanted.
func pickNodes(nodes []*pb.Node, wanted []string) (found []*pb.Node, unknown []string) {
	byName := make(map[string]*pb.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	for _, name := range wanted {
		if node, known := byName[name]; known {
			found = append(found, node)
		} else {
			unknown = append(unknown, name)
		}
	}
	return found, unknown
}

// nodeRecordOf is a node as "scontrol show node" prints it, and after that
// what only Gleaner knows.
func nodeRecordOf(node *pb.Node, view *view, details bool) *record {
	r, inventory := &record{}, node.GetInventory()
	features := orNull(strings.Join(inventory.GetFeatures(), ","))
	r.line(item("NodeName", node.Name), item("Arch", orNull(inventory.GetArch())), item("CoresPerSocket", digits(inventory.GetCoresPerSocket())))
	r.line(item("CPUAlloc", digits(node.AllocatedCpus)), item("CPUEfctv", digits(inventory.GetCpus())), item("CPUTot", digits(inventory.GetCpus())), "CPULoad=N/A")
	if pretends(node) {
		r.line(item("RealCPUs", digits(inventory.RealCpus)), "Pretending=YES")
	}
	r.line(item("AvailableFeatures", features))
	r.line(item("ActiveFeatures", features))
	r.line(item("Gres", orNull(nodeGres(node))))
	r.line(item("GresUsed", orNull(nodeGresUsed(node))), item("GPUsFree/Total", (&nodeRow{nodes: []*pb.Node{node}, view: view}).gpus()))
	r.line(item("NodeAddr", nodeAddress(node)), item("NodeHostName", hostName(node)), item("Version", orNull(inventory.GetVersion())))
	r.line(item("OS", orNull(inventory.GetOs())), item("CgroupVersion", orNull(inventory.GetCgroupVersion())))
	r.line(item("RealMemory", digits(inventory.GetMemoryBytes()>>20)), item("AllocMem", digits(node.AllocatedMemoryBytes>>20)),
		"FreeMem=N/A", item("Sockets", digits(inventory.GetSockets())), "Boards=1")
	r.line(item("State", fullState(node)), item("ThreadsPerCore", digits(inventory.GetThreadsPerCore())), "TmpDisk=0", "Weight=1",
		item("Owner", cmp.Or(node.OwnerAccount, "N/A")), "MCS_label=N/A")
	r.line(item("Partitions", strings.Join(node.Partitions, ",")))
	r.line(item("BootId", orNull(inventory.GetBootId())), item("SlurmdStartTime", view.stamp(node.RegisteredMs, "None")))
	r.line(item("CfgTRES", view.nodeTres(node)))
	r.line(item("AllocTRES", view.nodeTresUsed(node)))
	if node.Reason != "" {
		r.line(item("Reason", fmt.Sprintf("%s [%s@%s]", node.Reason, cmp.Or(node.ReasonUser, "unknown"), view.stamp(node.ReasonMs, "Unknown"))))
	}
	if node.Fencing != "" {
		r.line(item("Fencing", node.Fencing))
	}
	if len(node.FrozenJobs) > 0 {
		r.line(item("FrozenJobs", joinNumbers(node.FrozenJobs)))
	}
	for _, left := range node.LeftOvers {
		r.line(item("LeftOver", left.What), item("Since", view.stamp(left.SinceMs, "Unknown")), item("Error", left.Error))
	}
	if details {
		nodeDetails(r, node, view)
	}
	return r
}

func joinNumbers(numbers []uint32) string {
	texts := make([]string, 0, len(numbers))
	for _, number := range numbers {
		texts = append(texts, digits(number))
	}
	return strings.Join(texts, ",")
}

// nodeDetails are the node's jobs and each of its devices.
func nodeDetails(r *record, node *pb.Node, view *view) {
	r.line(item("RunningJobs", orNull(joinNumbers(node.RunningJobs))))
	held := heldShares(node)
	for _, device := range node.GetInventory().GetDevices() {
		items := []string{item("  Device", digits(device.Index)), item("Model", device.Model), item("Product", orNull(device.Product)),
			item("Memory", view.memory(device.MemoryBytes)), item("Id", device.Id), item("Health", healthWord(device)), item("Allocated", yesNo(held[device.Id] > 0))}
		if device.HealthDetail != "" {
			items = append(items, item("HealthDetail", device.HealthDetail))
		}
		r.line(items...)
	}
}

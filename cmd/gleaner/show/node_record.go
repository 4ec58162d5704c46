package show

import (
	"cmp"
	"fmt"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NodeRecordOf is a node as "scontrol show node" prints it, and after that
// what only Gleaner knows.
func NodeRecordOf(node *pb.Node, view *View, details bool) *Record {
	r, inventory := &Record{}, node.GetInventory()
	features := OrNull(strings.Join(inventory.GetFeatures(), ","))
	r.Line(Item("NodeName", node.Name), Item("Arch", OrNull(inventory.GetArch())), Item("CoresPerSocket", Digits(inventory.GetCoresPerSocket())))
	r.Line(Item("CPUAlloc", Digits(node.AllocatedCpus)), Item("CPUEfctv", Digits(inventory.GetCpus())), Item("CPUTot", Digits(inventory.GetCpus())), Item("CPULoad", loadText(node, cpuLoad)))
	if Pretends(node) {
		r.Line(Item("RealCPUs", Digits(inventory.RealCpus)), "Pretending=YES")
	}
	r.Line(Item("AvailableFeatures", features))
	r.Line(Item("ActiveFeatures", features))
	r.Line(Item("Gres", OrNull(nodeGres(node))))
	r.Line(Item("GresUsed", OrNull(nodeGresUsed(node))), Item("GPUsFree/Total", freeGPUs(node)))
	r.Line(Item("NodeAddr", nodeAddress(node)), Item("NodeHostName", hostName(node)), Item("Version", OrNull(inventory.GetVersion())))
	r.Line(Item("OS", OrNull(inventory.GetOs())), Item("CgroupVersion", OrNull(inventory.GetCgroupVersion())))
	r.Line(Item("RealMemory", Digits(inventory.GetMemoryBytes()>>20)), Item("AllocMem", Digits(node.AllocatedMemoryBytes>>20)),
		Item("FreeMem", loadText(node, freeMemory)), Item("Sockets", Digits(inventory.GetSockets())), "Boards=1")
	r.Line(Item("State", fullState(node)), Item("ThreadsPerCore", Digits(inventory.GetThreadsPerCore())), Item("TmpDisk", Digits(inventory.GetTmpBytes()>>20)), "Weight=1",
		Item("Owner", cmp.Or(node.OwnerAccount, "N/A")), "MCS_label=N/A")
	r.Line(Item("Partitions", strings.Join(node.Partitions, ",")))
	r.Line(Item("BootId", OrNull(inventory.GetBootId())), Item("SlurmdStartTime", view.Stamp(node.RegisteredMs, "None")))
	r.Line(Item("CfgTRES", view.nodeTres(node)))
	r.Line(Item("AllocTRES", view.nodeTresUsed(node)))
	if node.Reason != "" {
		r.Line(Item("Reason", fmt.Sprintf("%s [%s@%s]", node.Reason, cmp.Or(node.ReasonUser, "unknown"), view.Stamp(node.ReasonMs, "Unknown"))))
	}
	if whyNot := inventory.GetNoWayOut(); whyNot != "" {
		r.Line(Item("NoWayOut", whyNot))
	}
	nodeReclaim(r, node, view)
	nodeLending(r, node, view)
	nodeEvacuation(r, node, view)
	if node.Fencing != "" {
		r.Line(Item("Fencing", node.Fencing))
	}
	if len(node.FrozenJobs) > 0 {
		r.Line(Item("FrozenJobs", joinNumbers(node.FrozenJobs)))
	}
	for _, left := range node.LeftOvers {
		r.Line(Item("LeftOver", left.What), Item("Since", view.Stamp(left.SinceMs, "Unknown")), Item("Error", left.Error))
	}
	if details {
		nodeDetails(r, node, view)
	}
	return r
}

func joinNumbers(numbers []uint32) string {
	texts := make([]string, 0, len(numbers))
	for _, number := range numbers {
		texts = append(texts, Digits(number))
	}
	return strings.Join(texts, ",")
}

// nodeDetails are the node's jobs and each of its devices.
func nodeDetails(r *Record, node *pb.Node, view *View) {
	r.Line(Item("RunningJobs", OrNull(joinNumbers(node.RunningJobs))))
	held := heldShares(node)
	for _, device := range node.GetInventory().GetDevices() {
		items := []string{Item("  Device", Digits(device.Index)), Item("Model", device.Model), Item("Product", OrNull(device.Product)),
			Item("Memory", view.memory(device.MemoryBytes)), Item("Id", device.Id), Item("Health", healthWord(device)), Item("Allocated", yesNo(held[device.Id] > 0))}
		if device.HealthDetail != "" {
			items = append(items, Item("HealthDetail", device.HealthDetail))
		}
		r.Line(items...)
	}
}

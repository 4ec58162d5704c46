package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// busy reports whether jobs hold anything of the node.
func busy(node *pb.Node) bool {
	return node.State == pb.NodeState_NODE_STATE_MIXED || node.State == pb.NodeState_NODE_STATE_ALLOCATED || len(node.RunningJobs) > 0
}

// usable reports whether the node takes new jobs.
func usable(node *pb.Node) bool {
	switch node.State {
	case pb.NodeState_NODE_STATE_IDLE, pb.NodeState_NODE_STATE_MIXED, pb.NodeState_NODE_STATE_ALLOCATED:
		return !node.Drain && !node.NotResponding
	}
	return false
}

// nodeWords are a base state's words: in full, and as sinfo's %t.
var nodeWords = map[pb.NodeState][2]string{
	pb.NodeState_NODE_STATE_UNKNOWN:   {"unknown", "unk"},
	pb.NodeState_NODE_STATE_DOWN:      {"down", "down"},
	pb.NodeState_NODE_STATE_IDLE:      {"idle", "idle"},
	pb.NodeState_NODE_STATE_MIXED:     {"mixed", "mix"},
	pb.NodeState_NODE_STATE_ALLOCATED: {"allocated", "alloc"},
}

func baseWord(node *pb.Node) string { return cmp.Or(nodeWords[node.State][0], "unknown") }

// LongState is sinfo's %T without its mark.
func LongState(node *pb.Node) string {
	switch {
	case node.Drain && busy(node):
		return "draining"
	case node.Drain:
		return "drained"
	case node.State == pb.NodeState_NODE_STATE_IDLE && node.Maintenance:
		return "maint"
	case node.State == pb.NodeState_NODE_STATE_IDLE && node.Reservation != "":
		return "reserved"
	}
	return baseWord(node)
}

// shortState is sinfo's %t without its mark.
func shortState(node *pb.Node) string {
	switch {
	case node.Drain && busy(node):
		return "drng"
	case node.Drain:
		return "drain"
	case node.State == pb.NodeState_NODE_STATE_IDLE && node.Maintenance:
		return "maint"
	case node.State == pb.NodeState_NODE_STATE_IDLE && node.Reservation != "":
		return "resv"
	}
	return cmp.Or(nodeWords[node.State][1], "unk")
}

// stateMark follows the state of a node that does not respond, or of one that is kept for
// maintenance, as in sinfo(1), or for its owner.
func stateMark(node *pb.Node) string {
	switch {
	case node.NotResponding:
		return "*"
	case node.Reclaim != nil || node.Maintenance:
		return "$"
	}
	return ""
}

// fullState is the state as scontrol writes it: "IDLE+DRAIN+RECLAIMED+NOT_RESPONDING".
func fullState(node *pb.Node) string {
	text := strings.ToUpper(baseWord(node))
	if node.Drain {
		text += "+DRAIN"
	}
	if node.Maintenance {
		text += "+MAINTENANCE"
	}
	if node.Reservation != "" {
		text += "+RESERVED"
	}
	if node.Reclaim != nil {
		text += "+RECLAIMED"
	}
	if node.NotResponding {
		text += "+NOT_RESPONDING"
	}
	return text
}

// stateWeight orders node states as sinfo does, by Slurm's numbers for them:
// flags above base states.
func stateWeight(node *pb.Node) int {
	weight := map[pb.NodeState]int{
		pb.NodeState_NODE_STATE_DOWN: 1, pb.NodeState_NODE_STATE_IDLE: 2,
		pb.NodeState_NODE_STATE_ALLOCATED: 3, pb.NodeState_NODE_STATE_MIXED: 5,
	}[node.State]
	if node.Drain {
		weight |= 1 << 9
	}
	if node.Reclaim != nil || node.Reservation != "" {
		weight |= 1 << 5 // as a reserved one
	}
	if node.NotResponding {
		weight |= 1 << 11
	}
	return weight
}

// Pretends reports whether the node offers more CPUs than it has, which only a
// cluster for development does.
func Pretends(node *pb.Node) bool {
	return node.GetInventory().GetRealCpus() > 0 && node.Inventory.Cpus > node.Inventory.RealCpus
}

// Pretence is the sentence about such nodes.
func Pretence(names string, promised, real uint32) string {
	return fmt.Sprintf("%s: %d CPUs promised, %d exist (pretending; development only)", names, promised, real)
}

// heldShares counts how many shares of each device are given to jobs.
func heldShares(node *pb.Node) map[string]int {
	held := map[string]int{}
	for _, id := range node.AllocatedDeviceIds {
		held[id]++
	}
	return held
}

// wholeGPUs are the node's devices that are no slice of another one.
func wholeGPUs(node *pb.Node) []*pb.Device {
	var gpus []*pb.Device
	for _, device := range node.GetInventory().GetDevices() {
		if device.ParentId == "" {
			gpus = append(gpus, device)
		}
	}
	return gpus
}

// gpuCount is how many GPUs of a model there are, and how many could be given
// to a job now.
type gpuCount struct{ free, total int }

// countGPUs adds a node's GPUs to counts, by model. Of a node that takes no
// jobs, and of a GPU that is not healthy, nothing is free.
func countGPUs(node *pb.Node, counts map[string]gpuCount) {
	held := heldShares(node)
	for _, device := range wholeGPUs(node) {
		count := counts[device.Model]
		count.total++
		if usable(node) && device.Health == pb.DeviceHealth_DEVICE_HEALTH_OK && held[device.Id] == 0 {
			count.free++
		}
		counts[device.Model] = count
	}
}

// freeGPUs is free and all GPUs of nodes by model: "a100:3/8"; "-" without any.
func freeGPUs(nodes ...*pb.Node) string {
	counts := map[string]gpuCount{}
	for _, node := range nodes {
		countGPUs(node, counts)
	}
	var parts []string
	for _, model := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s:%d/%d", cmp.Or(model, "gpu"), counts[model].free, counts[model].total))
	}
	return cmp.Or(strings.Join(parts, ","), "-")
}

// nodeGres is what the node has: "gpu:a100:4", "" for none.
func nodeGres(node *pb.Node) string {
	counts := map[string]gpuCount{}
	countGPUs(node, counts)
	text := ""
	for _, model := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(",gpu:%s:%d", cmp.Or(model, "none"), counts[model].total)
	}
	return strings.TrimPrefix(text, ",")
}

// nodeGresUsed is what jobs hold of it: "gpu:a100:2(IDX:0-1)".
func nodeGresUsed(node *pb.Node) string {
	held := heldShares(node)
	var used []gresDevice
	for _, device := range wholeGPUs(node) {
		if held[device.Id] > 0 {
			used = append(used, gresDevice{model: device.Model, index: device.Index})
		}
	}
	if len(used) > 0 {
		return gresWithIndices(used)
	}
	text := ""
	counts := map[string]gpuCount{}
	countGPUs(node, counts)
	for _, model := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(",gpu:%s:0(IDX:N/A)", cmp.Or(model, "none"))
	}
	return strings.TrimPrefix(text, ",")
}

// nodeReason is why a node is drained or down; "none" as in sinfo's %E.
func nodeReason(node *pb.Node) string { return cmp.Or(node.Reason, "none") }

// MemberOf reports whether the node is in a partition.
func MemberOf(node *pb.Node, partition string) bool {
	for _, name := range node.Partitions {
		if name == partition {
			return true
		}
	}
	return false
}

// nodeTres is what the node has: "cpu=4,mem=1000M,billing=4,gres/gpu=4".
func (v *View) nodeTres(node *pb.Node) string {
	return v.tresParts(node.GetInventory().GetCpus(), node.GetInventory().GetMemoryBytes(), len(wholeGPUs(node)))
}

// nodeTresUsed is what jobs hold of it; "" if nothing.
func (v *View) nodeTresUsed(node *pb.Node) string {
	if node.AllocatedCpus == 0 && node.AllocatedMemoryBytes == 0 && len(node.AllocatedDeviceIds) == 0 {
		return ""
	}
	return v.tresParts(node.AllocatedCpus, node.AllocatedMemoryBytes, len(heldShares(node)))
}

func (v *View) tresParts(cpus uint32, memoryBytes uint64, gpus int) string {
	text := "cpu=" + Digits(cpus) + ",mem=" + v.memory(memoryBytes) + ",billing=" + Digits(cpus)
	if gpus > 0 {
		text += ",gres/gpu=" + Digits(gpus)
	}
	return text
}

package state

import (
	"fmt"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// NodeMessage is a node as clients see it.
func (t *tables) NodeMessage(node *Node) *pb.Node {
	message := &pb.Node{
		Name: node.Name, State: nodeState(node), Drain: node.Drain, NotResponding: node.NotResponding,
		Reason: node.Reason, ReasonMs: node.ReasonMS, ReasonUser: node.ReasonUser,
		AllocatedCpus: uint32(node.use.cpus.Count()), AllocatedMemoryBytes: node.use.memoryBytes,
		RunningJobs: node.use.jobs, RegisteredMs: node.RegisteredMS,
		Evacuation: t.evacuationMessage(node), OwnerAccount: t.policy.OwnerOf(node.Name), Reclaim: reclaimMessage(node.Reclaim), Lending: node.Lending.Message(), Habit: t.habitMessage(node),
	}
	t.tellReservation(message)
	if len(node.Strays) > 0 {
		message.Fencing = fmt.Sprintf("it gets no new jobs until what it has left of %d former runs is over, such as %d.%d", len(node.Strays), node.Strays[0].Job, node.Strays[0].Epoch)
	}
	if node.Inventory != nil {
		message.Inventory = inventoryMessage(node.Inventory)
		noteTrouble(message, node)
		message.NoGangNetwork = node.crossed(t.policy.GangRange.Prefixes())
	}
	for i := range t.policy.Partitions {
		if partition := &t.policy.Partitions[i]; partition.Has(node.Name) {
			message.Partitions = append(message.Partitions, partition.Name)
		}
	}
	for _, held := range node.use.devices {
		for range held.shares {
			message.AllocatedDeviceIds = append(message.AllocatedDeviceIds, held.id)
		}
	}
	for _, left := range node.LeftOvers {
		message.LeftOvers = append(message.LeftOvers, &pb.LeftOver{What: left.What, Error: left.Error, SinceMs: left.SinceMS})
	}
	return message
}

// noteTrouble shows a node that refuses new jobs by its own finding as drained,
// until it finds otherwise.
func noteTrouble(message *pb.Node, node *Node) {
	trouble := node.Inventory.Trouble
	switch {
	case trouble == "":
	case node.Drain || node.Down:
		message.Reason = joinSentences(node.Reason, trouble)
	default:
		message.Drain = true
		message.Reason, message.ReasonMs, message.ReasonUser = trouble, node.TroubleMS, "gnoded"
	}
}

func nodeState(node *Node) pb.NodeState {
	switch {
	case node.Inventory == nil && !node.Down:
		return pb.NodeState_NODE_STATE_UNKNOWN
	case node.Down:
		return pb.NodeState_NODE_STATE_DOWN
	case len(node.use.jobs) == 0:
		return pb.NodeState_NODE_STATE_IDLE
	case node.use.exclusive != 0 || node.use.cpus.Count() >= int(node.Inventory.CPUs):
		return pb.NodeState_NODE_STATE_ALLOCATED
	default:
		return pb.NodeState_NODE_STATE_MIXED
	}
}

func inventoryMessage(inventory *Inventory) *pb.Inventory {
	message := &pb.Inventory{
		Cpus: inventory.CPUs, RealCpus: inventory.RealCPUs,
		MemoryBytes: inventory.MemoryBytes, RealMemoryBytes: inventory.RealMemoryBytes,
		Features: inventory.Features, Version: inventory.Version, Os: inventory.OS, Arch: inventory.Arch,
		BootId: inventory.BootID, HostName: inventory.HostName, Address: inventory.Address,
		CgroupVersion: inventory.CgroupVersion, Sockets: inventory.Sockets,
		CoresPerSocket: inventory.CoresPerSocket, ThreadsPerCore: inventory.ThreadsPerCore,
		Trouble:  inventory.Trouble,
		TmpBytes: inventory.TmpBytes, TmpPerCpuBytes: inventory.TmpPerCPU, TmpUnbounded: inventory.TmpUnbounded,
		BoundsNetwork: inventory.BoundsNetwork, NoNetworkBound: inventory.NoNetworkBound,
		BoundsPower: inventory.BoundsPower, NoPowerBound: inventory.NoPowerBound, LeastPowerWatts: inventory.LeastPowerWatts,
		BoundsIo: inventory.BoundsIO, NoIoBound: inventory.NoIOBound,
		NoWayOut: inventory.NoWayOut, Routes: routesText(inventory.Routes),
	}
	for _, b := range inventory.ParkBounds {
		message.ParkBounds = append(message.ParkBounds, &pb.ParkBound{Model: b.Model, Devices: b.Devices, BoundMs: b.BoundMS, Measured: b.Measured})
	}
	for i := range inventory.Devices {
		d := &inventory.Devices[i]
		message.Devices = append(message.Devices, &pb.Device{
			Id: d.ID, Index: d.Index, Model: d.Model, MemoryBytes: d.MemoryBytes,
			Health: d.Health, HealthDetail: d.HealthDetail, ParentId: d.Parent, Shares: d.Shares,
			Links: d.Links, Product: d.Product, CpuAffinity: d.NearCPUs,
		})
	}
	return message
}

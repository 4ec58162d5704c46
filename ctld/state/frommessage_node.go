package state

import (
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// RegisterFromMessage makes the command of a node's registration.
func RegisterFromMessage(message *pb.Register) RegisterNode {
	command := RegisterNode{
		Name:       message.GetNode(),
		Instance:   message.GetInstance(),
		SentBootNS: message.GetSentBoottimeNs(),
		Inventory:  inventoryRecord(message.GetInventory()),
	}
	for _, alloc := range message.GetRunning() {
		command.Running = append(command.Running, RunningAlloc{
			Job: alloc.GetAlloc().GetJob(), Epoch: alloc.GetAlloc().GetEpoch(), Ready: alloc.GetReady(),
			SuspendNumber: alloc.GetSuspendNumber(), Frozen: alloc.GetSuspended(), Parked: alloc.GetParked(),
		})
	}
	command.LeftOvers = leftOverRecords(message.GetLeftOvers())
	return command
}

// SuspendReportFromMessage makes the record of a node's report on a suspended
// allocation.
func SuspendReportFromMessage(node string, message *pb.AllocSuspended) SuspendReport {
	return SuspendReport{
		Job: message.GetAlloc().GetJob(), Epoch: message.GetAlloc().GetEpoch(), Node: node,
		Number: message.GetNumber(), Frozen: message.GetFrozen(), Parked: message.GetParked(), Freed: freedFromMessage(message.GetFreed()),
	}
}

// LeftOversFromMessage makes the command for what a node could not clean up.
func LeftOversFromMessage(node string, message *pb.LeftOvers) NoteLeftOvers {
	return NoteLeftOvers{Name: node, LeftOvers: leftOverRecords(message.GetLeftOvers())}
}

// leftOverRecords drops what would not be kept, so that it is not in the log.
func leftOverRecords(messages []*pb.LeftOver) []LeftOver {
	var records []LeftOver
	for _, left := range messages[:min(len(messages), bounds.MaxLeftOvers)] {
		records = append(records, LeftOver{What: left.GetWhat(), Error: left.GetError(), SinceMS: left.GetSinceMs()})
	}
	return clipLeftOvers(records)
}

func inventoryRecord(message *pb.Inventory) Inventory {
	inventory := Inventory{
		CPUs: message.GetCpus(), RealCPUs: message.GetRealCpus(),
		MemoryBytes: message.GetMemoryBytes(), RealMemoryBytes: message.GetRealMemoryBytes(),
		Features: message.GetFeatures(), Version: message.GetVersion(), OS: message.GetOs(), Arch: message.GetArch(),
		BootID: message.GetBootId(), HostName: message.GetHostName(), Address: message.GetAddress(),
		CgroupVersion: message.GetCgroupVersion(), Sockets: message.GetSockets(),
		CoresPerSocket: message.GetCoresPerSocket(), ThreadsPerCore: message.GetThreadsPerCore(),
		Trouble:  message.GetTrouble(),
		TmpBytes: message.GetTmpBytes(), TmpPerCPU: message.GetTmpPerCpuBytes(), TmpUnbounded: message.GetTmpUnbounded(),
		BoundsNetwork: message.GetBoundsNetwork(), NoNetworkBound: message.GetNoNetworkBound(),
		BoundsPower: message.GetBoundsPower(), NoPowerBound: message.GetNoPowerBound(), LeastPowerWatts: message.GetLeastPowerWatts(),
		BoundsIO: message.GetBoundsIo(), NoIOBound: message.GetNoIoBound(),
		NoWayOut: message.GetNoWayOut(), Routes: routesOf(message.GetRoutes()),
	}
	inventory.ParkBounds = parkBoundRecords(message.GetParkBounds())
	for _, d := range message.GetDevices() {
		inventory.Devices = append(inventory.Devices, Device{
			ID: d.GetId(), Index: d.GetIndex(), Model: d.GetModel(), MemoryBytes: d.GetMemoryBytes(),
			Health: d.GetHealth(), HealthDetail: d.GetHealthDetail(), Parent: d.GetParentId(), Shares: d.GetShares(),
			Links: d.GetLinks(), Product: d.GetProduct(), NearCPUs: d.GetCpuAffinity(),
		})
	}
	return inventory
}

// NodeActionFromMessage maps the API's verb; 0 for an unknown one.
func NodeActionFromMessage(action pb.NodeAction) NodeAction {
	switch action {
	case pb.NodeAction_NODE_ACTION_DRAIN:
		return DrainNode
	case pb.NodeAction_NODE_ACTION_RESUME:
		return ResumeNode
	case pb.NodeAction_NODE_ACTION_DOWN:
		return DownNode
	case pb.NodeAction_NODE_ACTION_FENCED:
		return FenceNode
	case pb.NodeAction_NODE_ACTION_DELETE:
		return DeleteNode
	default:
		return 0
	}
}

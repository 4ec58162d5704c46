package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// RegisterNode records what a node has and what it is running. Allocations that
// it should have and does not have are over: those that were ready once, and
// those placed before another boot of the machine. An allocation never ready
// and placed in this boot was never delivered, and stays wanted. The node must
// list every allocation it keeps, also one that has ended and whose report is
// not acknowledged. Make one with RegisterFromMessage.
type RegisterNode struct {
	Name      string         `cbor:"1,keyasint"`
	Inventory Inventory      `cbor:"2,keyasint"`
	Instance  string         `cbor:"3,keyasint,omitempty"`
	Running   []RunningAlloc `cbor:"4,keyasint,omitempty"`
	LeftOvers []LeftOver     `cbor:"5,keyasint,omitempty"`
	// SentBootNS is CLOCK_BOOTTIME when it was sent; 0 = not known.
	SentBootNS int64 `cbor:"6,keyasint,omitempty"`
}

// RunningAlloc is an allocation a node says it keeps.
type RunningAlloc struct {
	Job   uint32 `cbor:"1,keyasint"`
	Epoch uint32 `cbor:"2,keyasint"`
	Ready bool   `cbor:"3,keyasint,omitempty"`
	// SuspendNumber, Frozen and Parked are as in SuspendReport
	SuspendNumber uint32 `cbor:"4,keyasint,omitempty"`
	Frozen        bool   `cbor:"5,keyasint,omitempty"`
	Parked        bool   `cbor:"6,keyasint,omitempty"`
}

func (RegisterNode) kind() Kind { return KindRegisterNode }

func (c RegisterNode) apply(s *State, result *Result) {
	if len(c.Running) > bounds.MaxListEntries {
		result.Refused = refuse(Exhausted, "node %q cannot register: %d allocations of jobs are more than %d", bounds.Clip(c.Name, bounds.MaxNameBytes), len(c.Running), bounds.MaxListEntries)
		return
	}
	inventory := c.Inventory
	if err := normalizeInventory(c.Name, &inventory); err != nil {
		result.Refused = refuse(Invalid, "node %q cannot register: %v", bounds.Clip(c.Name, bounds.MaxNameBytes), err)
		return
	}
	old, known := s.nodes.Get(c.Name)
	if !known && s.nodes.Len() >= bounds.MaxNodesPerCommand {
		result.Refused = refuse(Exhausted, "node %s cannot register: there are %d nodes already", c.Name, s.nodes.Len())
		return
	}
	node := Node{Name: c.Name}
	if known {
		node = *old
	}
	if result.Refused = node.noteBoot(&c, inventory.BootID); result.Refused != nil {
		return
	}
	node.Inventory = &inventory
	switch {
	case inventory.Trouble == "":
		node.TroubleMS = 0
	case node.TroubleMS == 0:
		node.TroubleMS = s.timeMS
	}
	node.Instance = bounds.Clip(c.Instance, bounds.MaxNameBytes)
	node.NotResponding, node.SilentMS = false, 0
	node.RegisteredMS = s.timeMS
	if node.WatchedMS == 0 {
		node.WatchedMS = s.timeMS
	}
	node.LeftOvers = clipLeftOvers(c.LeftOvers)
	if c.SentBootNS != 0 {
		node.Strays = s.strays(c.Name, c.Running)
	}
	awaited := node.Awaited
	if node.holdsStarts() {
		s.meetAwaited(&node, c.Running)
	}
	s.putNode(&node)
	if known {
		s.reconcileAllocs(&node, c.Running, awaited)
	}
	s.noteShrunk(c.Name)
}

// reconcileAllocs compares what a node runs with what it should run. An
// allocation that an awaited node does not have may have been delivered, and
// have ended, after the restored state was written: it is over in any case.
func (s *State) reconcileAllocs(node *Node, running []RunningAlloc, awaited bool) {
	keeps := make(map[RunningAlloc]bool, len(running)) // the rest empty in the keys
	ready := make(map[RunningAlloc]bool, len(running))
	suspended := make(map[RunningAlloc]SuspendReport, len(running))
	for _, alloc := range running {
		key := RunningAlloc{Job: alloc.Job, Epoch: alloc.Epoch}
		keeps[key] = true
		suspended[key] = SuspendReport{Job: alloc.Job, Epoch: alloc.Epoch, Node: node.Name, Number: alloc.SuspendNumber, Frozen: alloc.Frozen, Parked: alloc.Parked}
		ready[key] = ready[key] || alloc.Ready
	}
	var reports []SuspendReport
	for _, id := range node.use.jobs {
		job := s.jobOn(id, node.Name)
		alloc := job.Alloc(node.Name)
		key := RunningAlloc{Job: id, Epoch: job.Epoch}
		switch {
		case ready[key]:
			s.allocReady(AllocRef{id, job.Epoch, node.Name})
			if report := suspended[key]; report.Number != 0 {
				reports = append(reports, report)
			}
		case keeps[key]:
		case awaited || alloc.Ready || alloc.BootID != node.BootID():
			s.allocEnded(&AllocReport{
				Job: id, Epoch: job.Epoch, Node: node.Name,
				Cause: pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, Detail: lostDetail(alloc, node),
			})
		}
	}
	for i := range reports { // once it is known what is over, and so free
		s.allocSuspended(&reports[i])
	}
}

func lostDetail(alloc *Alloc, node *Node) string {
	if alloc.BootID != node.BootID() {
		return "the node was restarted"
	}
	return "the node registered without it"
}

// noteShrunk drains a node that has less than its jobs hold, and removes that
// note once it has enough again.
func (s *State) noteShrunk(name string) {
	old, _ := s.nodes.Get(name)
	missing := old.missing()
	if missing == "" && !old.Shrunk {
		return
	}
	node := *old
	node.Shrunk = missing != ""
	if node.Shrunk && !node.Drain {
		node.Drain = true
		node.Reason = "registered without what its jobs hold: " + missing
		node.ReasonMS = s.timeMS
		node.ReasonUser = systemUser
	}
	s.putNode(&node)
}

// missing says what the jobs of a node hold that its inventory lacks.
func (n *Node) missing() string {
	if n.use.memoryBytes > n.Inventory.MemoryBytes {
		return "memory"
	}
	if lost := n.use.cpus.Minus(place.FirstCPUs(n.Inventory.CPUs)); !lost.Empty() {
		return "CPUs " + lost.String()
	}
	for _, held := range n.use.devices {
		device := n.device(held.id)
		if device == nil || device.Shares < held.shares || n.use.overlaps(n, device) {
			return "device " + held.id
		}
	}
	return ""
}

func clipLeftOvers(leftOvers []LeftOver) []LeftOver {
	kept := slices.Clone(leftOvers[:min(len(leftOvers), bounds.MaxLeftOvers)])
	for i := range kept {
		kept[i].What = bounds.Clip(kept[i].What, bounds.MaxTextBytes)
		kept[i].Error = bounds.Clip(kept[i].Error, bounds.MaxTextBytes)
	}
	return kept
}

// normalizeInventory refuses what no honest node reports, and sorts the rest.
func normalizeInventory(name string, inventory *Inventory) error {
	switch {
	case !spec.ValidHostName(name):
		return fmt.Errorf("its name is not a host name (letters, digits, - and .)")
	case inventory.CPUs == 0 || inventory.CPUs > bounds.MaxCPUsPerNode:
		return fmt.Errorf("%d CPUs: there must be 1 to %d", inventory.CPUs, bounds.MaxCPUsPerNode)
	case len(inventory.Devices) > bounds.MaxDevicesPerNode:
		return fmt.Errorf("%d devices: there may be %d", len(inventory.Devices), bounds.MaxDevicesPerNode)
	case len(inventory.Features) > bounds.MaxListEntries:
		return fmt.Errorf("%d features are too many", len(inventory.Features))
	case inventory.MemoryBytes > 1<<60:
		return fmt.Errorf("%d bytes of memory: nothing has that", inventory.MemoryBytes)
	case inventory.TmpBytes > 1<<60 || inventory.TmpPerCPU > inventory.TmpBytes:
		return fmt.Errorf("%d bytes of disk for jobs, %d for a CPU: nothing has that", inventory.TmpBytes, inventory.TmpPerCPU)
	}
	for _, text := range []*string{
		&inventory.Version, &inventory.OS, &inventory.Arch, &inventory.BootID,
		&inventory.HostName, &inventory.Address, &inventory.CgroupVersion,
	} {
		*text = bounds.Clip(*text, bounds.MaxNameBytes)
	}
	inventory.Trouble = bounds.Clip(inventory.Trouble, bounds.MaxTextBytes)
	for _, feature := range inventory.Features {
		if len(feature) > bounds.MaxNameBytes {
			return fmt.Errorf("feature %q is longer than %d bytes", bounds.Clip(feature, 64), bounds.MaxNameBytes)
		}
	}
	inventory.Features = slices.Clone(inventory.Features)
	slices.Sort(inventory.Features)
	inventory.Features = slices.Compact(inventory.Features)
	inventory.Devices = slices.Clone(inventory.Devices)
	slices.SortFunc(inventory.Devices, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID))
	})
	return checkDevices(inventory.Devices)
}

func checkDevices(devices []Device) error {
	seen := make(map[string]bool, len(devices))
	for i := range devices {
		device := &devices[i]
		if device.ID == "" || len(device.ID) > bounds.MaxNameBytes || seen[device.ID] {
			return fmt.Errorf("device id %q is empty, too long or there twice", bounds.Clip(device.ID, bounds.MaxNameBytes))
		}
		seen[device.ID] = true
		device.Shares = max(device.Shares, 1)
		device.HealthDetail = bounds.Clip(device.HealthDetail, bounds.MaxTextBytes)
		device.Product = bounds.Clip(device.Product, bounds.MaxNameBytes)
		if len(device.Model) > bounds.MaxNameBytes {
			return fmt.Errorf("model %q of device %s is longer than %d bytes", bounds.Clip(device.Model, 64), device.ID, bounds.MaxNameBytes)
		}
		if len(device.Links) > bounds.MaxDevicesPerNode || len(device.NearCPUs) > bounds.MaxCPUsPerNode {
			return fmt.Errorf("device %s has too many links or CPUs", device.ID)
		}
		for _, link := range device.Links {
			if len(link) > bounds.MaxNameBytes {
				return fmt.Errorf("device %s has a link to %q, which is no id", device.ID, bounds.Clip(link, 64))
			}
		}
	}
	for i := range devices {
		if parent := devices[i].Parent; parent != "" && (!seen[parent] || parent == devices[i].ID) {
			return fmt.Errorf("device %s is a slice of %q, which is not there", devices[i].ID, parent)
		}
	}
	return nil
}

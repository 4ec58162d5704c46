package show

import (
	"cmp"
	"sync"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// nodeCurrent is what only the current shape has of a node.
type nodeCurrent struct {
	*nodeUnused
	BootTime      Optional `json:"boot_time"`
	EffectiveCpus uint32   `json:"effective_cpus"`
	GresDrained   string   `json:"gres_drained"`
	LastBusy      Optional `json:"last_busy"`
	TemporaryDisk uint64   `json:"temporary_disk"` // MiB
}

// nodeUnused is what no node has here. Its owner is not Slurm's: that is the user to whom a
// node is given alone. It has no port, since it dials the controllers.
type nodeUnused struct {
	BurstBufferAddress string     `json:"burstbuffer_network_address"`
	Boards             uint32     `json:"boards"`
	CertRenewal        Optional   `json:"tls_cert_last_renewal"`
	CertFlags          []string   `json:"cert_flags"`
	ClusterName        string     `json:"cluster_name"`
	SpecializedCores   uint32     `json:"specialized_cores"`
	CPUBinding         uint32     `json:"cpu_binding"`
	SpecializedCpus    string     `json:"specialized_cpus"`
	Energy             nodeEnergy `json:"energy"`
	ExternalSensors    struct{}   `json:"external_sensors"`
	Extra              string     `json:"extra"`
	Power              struct{}   `json:"power"`
	GPUSpec            string     `json:"gpu_spec"`
	InstanceID         string     `json:"instance_id"`
	InstanceType       string     `json:"instance_type"`
	McsLabel           string     `json:"mcs_label"`
	SpecializedMemory  uint64     `json:"specialized_memory"`
	AfterReboot        []string   `json:"next_state_after_reboot"`
	Owner              string     `json:"owner"`
	Port               uint32     `json:"port"`
	CoresPerGPU        uint32     `json:"res_cores_per_gpu"`
	Comment            string     `json:"comment"`
	ResumeAfter        Optional   `json:"resume_after"`
	TresWeighted       float64    `json:"tres_weighted"`
	Topology           string     `json:"topology"`
}

type nodeEnergy struct {
	AverageWatts  uint32   `json:"average_watts"`
	BaseConsumed  uint64   `json:"base_consumed_energy"`
	Consumed      uint64   `json:"consumed_energy"`
	CurrentWatts  Optional `json:"current_watts"`
	Previous      uint64   `json:"previous_consumed_energy"`
	LastCollected uint64   `json:"last_collected"`
}

var unusedOfNode = sync.OnceValue(func() *nodeUnused {
	zero := JSONCurrent.Count(0)
	return &nodeUnused{
		Boards: 1, CertRenewal: zero, CertFlags: []string{}, Energy: nodeEnergy{CurrentWatts: zero}, AfterReboot: []string{"INVALID"}, ResumeAfter: zero,
	}
})

func (s JSONShape) nodeCurrent(node *pb.Node, view *View) *nodeCurrent {
	inventory := node.GetInventory()
	return &nodeCurrent{
		nodeUnused: unusedOfNode(), BootTime: s.moment(node.GetLoad().GetBootMs()), EffectiveCpus: inventory.GetCpus(),
		GresDrained: cmp.Or(gresDrained(node), "N/A"), LastBusy: s.moment(lastBusyMS(node, view)), TemporaryDisk: inventory.GetTmpBytes() >> 20,
	}
}

// lastBusyMS is now for a node on which jobs run; when others had their last is not known.
func lastBusyMS(node *pb.Node, view *View) int64 {
	if busy(node) {
		return view.NowMS
	}
	return 0
}

// gresDrained are the GPUs that no job is given any longer: "gpu:a100:1"; "" for none.
func gresDrained(node *pb.Node) string {
	var failed []*pb.Device
	for _, device := range wholeGPUs(node) {
		if device.GetHealth() != pb.DeviceHealth_DEVICE_HEALTH_OK {
			failed = append(failed, device)
		}
	}
	return nodeGres(&pb.Node{Inventory: &pb.Inventory{Devices: failed}})
}

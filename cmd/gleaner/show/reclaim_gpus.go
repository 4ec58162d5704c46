package show

import (
	"cmp"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file shows which GPUs of a node are taken back where the rest of it is not.

// Taken is what a reclaim takes of a node: "all hardware", "gpu:a100:2(IDX:0-1)".
func Taken(node *pb.Node) string { return cmp.Or(reclaimedGres(node), "all hardware") }

// reclaimedGres is the GPUs that are taken back: "gpu:a100:2(IDX:0-1)"; "" where all of the
// node is.
func reclaimedGres(node *pb.Node) string {
	taken := node.GetReclaim().GetDevices()
	if len(taken) == 0 {
		return ""
	}
	var devices []gresDevice
	for _, device := range node.GetInventory().GetDevices() {
		if slices.Contains(taken, device.Id) {
			devices = append(devices, gresDevice{model: device.Model, index: device.Index})
		}
	}
	if len(devices) == 0 { // their node has lost them
		return "gpu:0"
	}
	return gresWithIndices(devices)
}

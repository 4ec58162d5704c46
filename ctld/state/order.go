package state

import (
	"fmt"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// StartPart is the order to a node to start its part of a job that runs: all
// its supervisor needs. It wraps ErrNotFound when the job has no part there
// that is not released.
func (t *tables) StartPart(id uint32, node string) (*pb.StartPart, error) {
	job, known := t.Job(id)
	if !known || !job.HoldsNodes() {
		return nil, fmt.Errorf("order for job %d on %s: the job does not run: %w", id, node, ErrNotFound)
	}
	if part := job.Part(node); part == nil || part.Released {
		return nil, fmt.Errorf("order for job %d on %s: it has no part there: %w", id, node, ErrNotFound)
	}
	order := &pb.StartPart{
		Part:         &pb.PartId{Job: job.ID, Epoch: job.Epoch},
		Id:           jobID(job),
		ArrayJobId:   job.Array,
		Spec:         specMessage(job, JobDetail{Script: true, Environment: true}),
		Owner:        ownerMessage(job.Owner()),
		Allocation:   allocationMessage(job.Run),
		Node:         node,
		BatchHost:    job.Run.BatchHost(),
		Partition:    job.Run.Partition,
		TimeLimitS:   job.TimeLimitS(),
		StartMs:      job.Run.StartMS,
		RestartCount: job.Restarts,
		ClusterName:  t.policy.ClusterName,
		KillWaitS:    t.policy.KillWaitS,
		LeaseAction:  LeaseRunOn,
		Gang:         job.IsGang(),
	}
	if job.Array != 0 {
		order.Array = arraySpec(job.Spec)
	}
	if job.Run.Restore != nil {
		order.Restore = job.Run.Restore.Message(job.ID, slices.Index(job.Run.nodes(), node))
		order.KnownAs = job.Run.otherNames()
	}
	if partition, known := t.policy.Partition(job.Run.Partition); known {
		order.RootAllowed = partition.AllowRootJobs
	}
	if job.Run.Fence {
		order.LeaseAction = LeaseFence
	}
	for i := range job.Run.Parts {
		order.NodeAddresses = append(order.NodeAddresses, t.nodeAddress(job.Run.Parts[i].Node))
	}
	return order, nil
}

func (t *tables) nodeAddress(name string) string {
	node, known := t.nodes.Get(name)
	if !known || node.Inventory == nil || node.Inventory.Address == "" {
		return name
	}
	return node.Inventory.Address
}

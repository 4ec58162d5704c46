package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// StartAlloc is the order to a node to start its allocation of a running job:
// all its supervisor needs. The error wraps ErrNotFound when the job has no
// allocation there that is not released.
func (t *tables) StartAlloc(id uint32, node string) (*pb.StartAlloc, error) {
	job, known := t.Job(id)
	if !known || !job.HoldsNodes() {
		return nil, fmt.Errorf("order for job %d on %s: the job does not run: %w", id, node, ErrNotFound)
	}
	job = job.on(node)
	if alloc := job.Alloc(node); alloc == nil || alloc.Released {
		return nil, fmt.Errorf("order for job %d on %s: it has no allocation there: %w", id, node, ErrNotFound)
	}
	order := &pb.StartAlloc{
		Alloc:        &pb.AllocId{Job: job.ID, Epoch: job.Epoch},
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
		LeaseAction:  policy.LeaseRunOn,
		Gang:         job.IsGang() || job.Run.Moved,
	}
	if between := job.between(); between != nil {
		order.Network, order.Network6 = between.V4, between.V6
	}
	if association, known := t.Association(job.Association); known {
		order.Account = association.Account
	}
	if job.Spec.Container != nil {
		order.ImageRules, order.OwnerImageRules = t.policy.Images.Message(), t.imageRulesOn(job, node)
	}
	if job.Array != 0 {
		order.Array = arraySpec(job.Spec)
	}
	if job.Run.Restore != nil {
		order.Restore = job.Run.Restore.Message(job.ID, slices.Index(job.Run.nodes(), node))
		order.AsSaved = job.Run.Moved || job.asSaved(job.Run.Restore)
		order.KnownAs = job.Run.otherNames()
	}
	if partition, known := t.policy.Partition(job.Run.Partition); known {
		order.RootAllowed = partition.AllowRootJobs
		order.NestedContainers = t.nestedOn(job, partition, node)
		order.Outside = t.outsideOn(job, partition, node).Message()
	}
	if job.Run.Fence {
		order.LeaseAction = policy.LeaseFence
	}
	job.fillStaging(order)
	for i := range job.Run.Allocs {
		order.NodeAddresses = append(order.NodeAddresses, t.NodeAddress(job.Run.Allocs[i].Node))
	}
	return order, nil
}

// StartLike is the order to resume from a part of an image on a node, as far as
// it is known before the job has a run there, for a question whether the node
// could.
func (t *tables) StartLike(job *Job, image *Image, alloc int, node string) *pb.StartAlloc {
	order := &pb.StartAlloc{
		Alloc: &pb.AllocId{Job: job.ID, Epoch: job.Epoch + 1}, Id: jobID(job), ArrayJobId: job.Array,
		Spec: specMessage(job, JobDetail{}), Owner: ownerMessage(job.Owner()), Node: node,
		ClusterName: t.policy.ClusterName, LeaseAction: policy.LeaseRunOn, RestartCount: job.Restarts,
		Restore: image.Message(job.ID, alloc), AsSaved: job.asSaved(image),
	}
	if job.Spec.Container != nil {
		order.ImageRules, order.OwnerImageRules = t.policy.Images.Message(), t.imageRulesOn(job, node)
	}
	if job.Array != 0 {
		order.Array = arraySpec(job.Spec)
	}
	for i := range image.Allocs {
		allocation := &pb.NodeAllocation{MemoryBytes: job.Spec.MemoryPerNode}
		if i == alloc {
			allocation.Node = node
		}
		order.Allocation = append(order.Allocation, allocation)
	}
	if alloc == 0 {
		order.BatchHost = node
	}
	for _, name := range job.Spec.Partitions {
		if partition, known := t.policy.Partition(name); known {
			order.Partition, order.RootAllowed = name, order.RootAllowed || partition.AllowRootJobs
		}
	}
	return order
}

// NodeAddress is where other nodes reach a node, as it says itself.
func (t *tables) NodeAddress(name string) string {
	node, known := t.nodes.Get(name)
	if !known || node.Inventory == nil || node.Inventory.Address == "" {
		return name
	}
	return node.Inventory.Address
}

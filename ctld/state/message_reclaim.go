package state

import (
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"google.golang.org/protobuf/proto"
)

// reclaimMessage is a node's reclaim as clients see it; nil when there is none.
func reclaimMessage(reclaim *Reclaim) *pb.Reclaim {
	if reclaim == nil {
		return nil
	}
	message := &pb.Reclaim{
		Number: reclaim.Number, By: reclaim.By, AtMs: reclaim.AtMS, DeadlineMs: reclaim.DeadlineMS,
		UntilMs: reclaim.UntilMS, Kill: reclaim.Kill,
		Devices: reclaim.Devices,
	}
	for i := range reclaim.Holds {
		h := &reclaim.Holds[i]
		message.Holds = append(message.Holds, &pb.ReclaimHold{Trigger: h.Trigger, By: h.By, SinceMs: h.SinceMS, UntilMs: h.UntilMS, Detail: h.Detail, Devices: h.Devices})
	}
	for i := range reclaim.Guests {
		message.Guests = append(message.Guests, guestMessage(&reclaim.Guests[i]))
	}
	return message
}

func guestMessage(guest *ReclaimedGuest) *pb.ReclaimedGuest {
	id := &pb.JobId{Job: guest.Job}
	if guest.HasTask {
		id.Job, id.ArrayTask = guest.Array, proto.Uint32(guest.Task)
	}
	return &pb.ReclaimedGuest{
		Id: id, Job: guest.Job, Epoch: guest.Epoch, Name: guest.Name, User: guest.User, Account: guest.Account,
		Cpus: guest.CPUs, Gpus: guest.GPUs, MemoryBytes: guest.MemoryBytes,
		Fate: guest.Fate, FreedMs: guest.FreedMS, Detail: guest.Detail,
		ParkBoundMs: guest.BoundMS, ParkUnbounded: guest.Unbounded,
		NodeTookMs: guest.NodeTookMS, NodeLateMs: guest.NodeLateMS,
	}
}

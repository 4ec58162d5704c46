package supervise

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Told is what one watcher, a node daemon, has been told. The zero value: nothing.
type Told struct {
	ready          bool
	stuck          *pb.LeftOver
	lease, frozen  bool
	suspended      *pb.AllocSuspended
	hold           *pb.ShimHold
	saved          *pb.AllocSaved
	checkpointable *pb.AllocCheckpointable
}

// News answers what the watcher is to be told now. How far the allocation can be
// saved at this moment, and what of it does not end, the supervisor says.
func (t *Told) News(a *Alloc, checkpointable *pb.AllocCheckpointable, stuck *pb.LeftOver) (news []*pb.ShimEvent) {
	// One that is suspended is frozen for that, whatever its lease.
	if frozen := a.Ready && !a.Lease.Runs && !a.Lease.Suspended; a.Lease.Fence && (!t.lease || t.frozen != frozen) {
		t.lease, t.frozen = true, frozen
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Lease{Lease: &pb.ShimLease{EndBoottimeNs: int64(a.Lease.End), Frozen: frozen}}})
	}
	if suspended := a.Suspended(); !proto.Equal(suspended, t.suspended) {
		t.suspended = suspended
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Suspended{Suspended: suspended}})
	}
	if hold := a.Holds(); !proto.Equal(hold, t.hold) {
		t.hold = hold
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Hold{Hold: hold}})
	}
	if a.Ready && !t.ready {
		t.ready = true
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Ready{Ready: &pb.AllocReady{Alloc: a.ID, NetworkEnd: a.NetworkEnd}}})
	}
	if stuck != t.stuck {
		t.stuck = stuck
		if stuck == nil {
			stuck = &pb.LeftOver{}
		}
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Stuck{Stuck: stuck}})
	}
	if !proto.Equal(checkpointable, t.checkpointable) {
		t.checkpointable = checkpointable
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Checkpointable{Checkpointable: checkpointable}})
	}
	if a.Last != t.saved {
		t.saved = a.Last
		news = append(news, &pb.ShimEvent{What: &pb.ShimEvent_Saved{Saved: a.Last}})
	}
	return news
}

// Suspended is the order to suspend or to resume that counts, whether the job is frozen by
// it, and whether its devices are the owner's; nil when none came.
func (a *Alloc) Suspended() *pb.AllocSuspended {
	if a.SuspendNumber == 0 {
		return nil
	}
	frozen := a.Ready && a.Ordered.Suspended && (!a.Lease.Runs || a.Awaits)
	said := &pb.AllocSuspended{Alloc: a.ID, Number: a.SuspendNumber, Frozen: frozen}
	if a.Park.Step == Parked && a.Ordered.Park {
		said.Parked, said.GpuBytes, said.Freed = true, a.Park.GPU, a.Park.Freed
	}
	return said
}

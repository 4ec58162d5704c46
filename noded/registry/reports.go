package registry

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/lease"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Hear takes what the supervisor of an allocation says. It says everything again to
// each new daemon.
func (r *Registry) Hear(p *Alloc, event *pb.ShimEvent) (do Do) {
	switch what := event.GetWhat().(type) {
	case *pb.ShimEvent_Ready:
		p.Ready, p.NetworkEnd = true, what.Ready.GetNetworkEnd()
		if p.Life.State() == job.Preparing {
			do.move(p, job.Ready)
			if !p.Order.GetGang() {
				do.move(p, job.Running)
			}
			if p.Released {
				do.startBatch(p)
			}
		}
		do.ready(p)
	case *pb.ShimEvent_Lease:
		p.Frozen = what.Lease.GetFrozen()
	case *pb.ShimEvent_Suspended:
		do.hearSuspended(p, what.Suspended)
	case *pb.ShimEvent_Hold:
		do.hearHold(p, what.Hold)
	case *pb.ShimEvent_Saved:
		do.hearSaved(p, what.Saved)
	case *pb.ShimEvent_Checkpointable:
		p.Checkpoint = &pb.AllocCheckpointable{
			Alloc: p.Key.Message(), Checkpointable: what.Checkpointable.GetCheckpointable(), Reason: Words(what.Checkpointable.GetReason()), Tried: what.Checkpointable.GetTried(),
		}
		do.checkpointable(p)
	}
	return do
}

// hearSuspended notes which order to suspend counts, and what it has led to. A controller
// that does not hear it does in the next registration.
func (d *Do) hearSuspended(p *Alloc, said *pb.AllocSuspended) {
	if p.SuspendNumber == said.GetNumber() && p.Suspended == said.GetFrozen() && p.Parked == said.GetParked() {
		return
	}
	if said.GetParked() && p.Park.Number == said.GetNumber() { // or an earlier daemon has heard it
		d.parked(p, said.GetGpuBytes(), said.GetFreed().GetTookMs())
	}
	p.SuspendNumber, p.Suspended, p.Parked, p.Freed = said.GetNumber(), said.GetFrozen(), said.GetParked(), said.GetFreed()
	d.send(&pb.NodeMessage{What: &pb.NodeMessage_AllocSuspended{AllocSuspended: &pb.AllocSuspended{
		Alloc: p.Key.Message(), Number: p.SuspendNumber, Frozen: p.Suspended, Parked: p.Parked, Freed: p.Freed,
	}}})
}

// parked notes how long a park took that somebody waited for, once: the controllers and the
// owner on the node may both have asked for it.
func (d *Do) parked(p *Alloc, gpuBytes uint64, tookMS uint32) {
	if !p.Parked && !p.Hold.Parked && p.deadline().By != 0 {
		d.Measured = &ParkMeasured{Size: p.parkSize(gpuBytes), Took: time.Duration(tookMS) * time.Millisecond}
	}
}

// hearSaved notes how a save ended, until a controller has acknowledged it. It is said
// once when the save has ended, to each new watcher, and when the order is repeated.
func (d *Do) hearSaved(p *Alloc, saved *pb.AllocSaved) {
	// What names another allocation would be acknowledged as that one.
	saved = proto.CloneOf(saved)
	saved.Alloc, saved.Error = p.Key.Message(), Words(saved.Error)
	if saved.Image != nil {
		saved.Image.Alloc = p.Key.Message()
	}
	if !proto.Equal(saved, p.SavedKnown) {
		p.Saved = saved
	}
	d.saved(saved)
}

// Over notes that nothing of an allocation is left but its result. last is how its last
// save ended, as it lies on the disk: its supervisor may have died before anybody heard
// of that, and the image may be the one from which the job resumes.
func (r *Registry) Over(p *Alloc, result *pb.AllocEnded, last *pb.AllocSaved, now Time) (do Do) {
	// A result that names another allocation would be acknowledged as that one.
	result = proto.CloneOf(result)
	result.Alloc = p.Key.Message()
	if result.Cause == pb.EndCause_END_CAUSE_SUPERVISOR_DIED {
		switch {
		case p.LaunchFailed != nil:
			result.Cause, result.Detail = p.LaunchFailed.Cause, p.LaunchFailed.Detail
		case p.LeaseKilled:
			result.Cause, result.Detail = pb.EndCause_END_CAUSE_LEASE_ENDED, "the job's supervisor did not freeze it at the end of its lease and was killed"
		case p.ParkKilled:
			result.Cause, result.Detail = pb.EndCause_END_CAUSE_RECLAIMED, "the job's supervisor had neither parked nor ended it in time and was killed"
			result.Freed = supervise.SupervisorKilled(p.deadline(), p.killTime(), now.Boot)
		case p.Killed:
			result.Cause, result.Detail = p.killedFor(), "the job's supervisor did not end it in time and was killed"
		}
	}
	result.Detail = Words(result.Detail)
	if freed := result.GetFreed(); freed.GetKilled() && p.parkSize(0).Model == "" {
		// Parking it would have taken longer, nobody knows how much.
		do.parked(p, 0, freed.GetTookMs())
	}
	if p.Saved.GetFrozen() {
		p.Saved = proto.CloneOf(p.Saved)
		p.Saved.Frozen = false
	}
	if last.GetNumber() > max(p.Saved.GetNumber(), p.SavedKnown.GetNumber()) {
		do.hearSaved(p, last)
	}
	p.Result = result
	do.move(p, job.Ended)
	do.ended(result)
	return do
}

// killedFor is the cause of an allocation whose supervisor did not end it in time.
func (p *Alloc) killedFor() pb.EndCause {
	if p.EndOrder == nil {
		return pb.EndCause_END_CAUSE_LEASE_ENDED
	}
	return EndCause(p.EndOrder)
}

// Register completes a registration, and answers it and what follows it: all that a
// controller may not have heard.
func (r *Registry) Register(message *pb.Register) []*pb.NodeMessage {
	var do Do
	all := r.All()
	for _, p := range all {
		// An allocation whose end is not acknowledged is not lost: it is told as
		// ending, and the report of its end follows at once.
		if p.Life.State() == job.Acknowledged {
			continue
		}
		message.Running = append(message.Running, &pb.RunningAlloc{
			Alloc: p.Key.Message(), Ready: p.Ready, Ending: p.Life.State() >= job.Ending, Frozen: p.Frozen,
			SuspendNumber: p.SuspendNumber, Suspended: p.Suspended, Parked: p.Parked, NetworkEnd: p.NetworkEnd,
		})
	}
	do.send(&pb.NodeMessage{What: &pb.NodeMessage_Register{Register: message}})
	for _, p := range all {
		if p.Checkpoint != nil && !p.Life.Over() {
			do.checkpointable(p)
		}
	}
	return append(do.Send, r.Unacknowledged()...)
}

// Unacknowledged are the reports of saves and ends that no controller has acknowledged.
func (r *Registry) Unacknowledged() []*pb.NodeMessage {
	var do Do
	for _, p := range r.All() {
		if p.Saved != nil { // before its end, by which a controller is done with it
			do.saved(p.Saved)
		}
		if p.Life.State() == job.Ended {
			do.ended(p.Result)
		}
	}
	return do.Send
}

// Renewal asks for the lease, and says what the node's host does (nil if that is not known).
func (r *Registry) Renewal(now Time, load *pb.HostLoad) *pb.NodeMessage {
	message := &pb.RenewLease{SentBoottimeNs: int64(now.Boot), Load: load}
	for _, p := range r.All() {
		if p.Frozen && !p.Life.Over() {
			message.Frozen = append(message.Frozen, p.Key.Message())
		}
	}
	return &pb.NodeMessage{What: &pb.NodeMessage_RenewLease{RenewLease: message}}
}

// Answers says whether a controller's answer can be one to a request that was sent in
// the session that was opened then.
func Answers(renewed *pb.LeaseRenewed, opened time.Duration, now Time) bool {
	sent := time.Duration(renewed.GetSentBoottimeNs())
	return sent >= opened && sent <= now.Boot
}

// Granted is an answer to a request for a lease, for the supervisor of one allocation.
type Granted struct {
	Alloc  *Alloc
	Answer *pb.LeaseRenewed // names that allocation, or none
}

// Renewed takes an answer to a request for a lease, and tells each supervisor whether
// its allocation is named. Supervisors keep the leases themselves.
func (r *Registry) Renewed(renewed *pb.LeaseRenewed) []Granted {
	r.lease = renewed
	named := make(map[Key]bool, len(renewed.GetAllocs()))
	for _, id := range renewed.GetAllocs() {
		named[KeyOf(id)] = true
	}
	var all []Granted
	for _, p := range r.All() {
		if !p.Life.Over() {
			all = append(all, Granted{p, p.grant(renewed, named[p.Key])})
		}
	}
	return all
}

// Latest is the latest answer for an allocation whose supervisor has just been started;
// nil = none came.
func (r *Registry) Latest(p *Alloc) *pb.LeaseRenewed {
	if r.lease == nil {
		return nil
	}
	for _, id := range r.lease.GetAllocs() {
		if KeyOf(id) == p.Key {
			return p.grant(r.lease, true)
		}
	}
	return p.grant(r.lease, false)
}

func (p *Alloc) grant(renewed *pb.LeaseRenewed, named bool) *pb.LeaseRenewed {
	own := &pb.LeaseRenewed{SentBoottimeNs: renewed.GetSentBoottimeNs(), LeaseMs: renewed.GetLeaseMs(), LeaseMarginMs: renewed.GetLeaseMarginMs()}
	if named {
		own.Allocs = []*pb.AllocId{p.Key.Message()}
	}
	p.Lease = p.Lease.Granted(supervise.GrantOf(own, p.Key.Message()))
	return own
}

// Late are the allocations whose supervisors should have ended them by their lease, and
// did not.
func (r *Registry) Late(now Time) []*Alloc {
	var late []*Alloc
	for _, p := range r.All() {
		if !p.Life.Over() && !p.LeaseKilled && p.Lease.End != 0 && p.Lease.At(now.Boot) == lease.Remove {
			late = append(late, p)
		}
	}
	return late
}

// Overdue are the allocations that should be parked or over, and are neither: their
// supervisors hang.
func (r *Registry) Overdue(now Time) []*Alloc {
	var overdue []*Alloc
	for _, p := range r.All() {
		if !p.ParkKilled && !p.Free() && p.deadline().By != 0 && now.Boot >= p.killTime() {
			overdue = append(overdue, p)
		}
	}
	return overdue
}

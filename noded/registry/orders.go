package registry

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/noded/job"
	"github.com/gleaner-hpc/gleaner/noded/supervise"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Obey takes a message of a controller. It answers false for those that are not about
// the allocations' lives.
func (r *Registry) Obey(message *pb.ControllerMessage, now Time) (do Do, mine bool) {
	switch what := message.GetWhat().(type) {
	case *pb.ControllerMessage_StartAlloc:
		r.start(what.StartAlloc, now, &do)
	case *pb.ControllerMessage_ReleaseBatch:
		r.release(what.ReleaseBatch, &do)
	case *pb.ControllerMessage_EndAlloc:
		r.end(what.EndAlloc, now, &do)
	case *pb.ControllerMessage_SetTimeLimit:
		r.passOn(KeyOf(what.SetTimeLimit.GetAlloc()), message, &do)
	case *pb.ControllerMessage_SuspendAlloc:
		r.suspend(what.SuspendAlloc, now, &do)
	case *pb.ControllerMessage_SignalAlloc:
		if !r.passOn(KeyOf(what.SignalAlloc.GetAlloc()), message, &do) {
			do.send(Signalled(what.SignalAlloc, ErrOver.Error()))
		}
	case *pb.ControllerMessage_SaveAlloc:
		r.save(what.SaveAlloc, message, &do)
	case *pb.ControllerMessage_EndedAcknowledged:
		r.endedAcknowledged(KeyOf(what.EndedAcknowledged.GetAlloc()), &do)
	case *pb.ControllerMessage_SavedAcknowledged:
		r.savedAcknowledged(what.SavedAcknowledged)
	default:
		return do, false
	}
	return do, true
}

// start begins an allocation, or answers the state of the one that it has already.
func (r *Registry) start(order *pb.StartAlloc, now Time, do *Do) {
	key := KeyOf(order.GetAlloc())
	if result := r.gone[key]; result != nil {
		do.ended(result)
		return
	}
	if p := r.allocs[key]; p != nil {
		switch {
		case p.Life.Over():
			do.ended(p.Result)
		case p.Ready:
			do.ready(p)
		}
		return
	}
	if r.reclaimedHere(order, now) {
		do.ended(neverStarted(key, pb.EndCause_END_CAUSE_RECLAIMED, "it had not been started", now))
		return
	}
	if err := r.accept(order); err != nil {
		do.Refused = err
		do.ended(neverStarted(key, pb.EndCause_END_CAUSE_NODE_FAULT, err.Error(), now))
		return
	}
	do.New = r.Adopt(order, now)
	// It need not wait for the next renewal.
	do.Renew = do.New.Lease.Fence
}

func (r *Registry) accept(order *pb.StartAlloc) error {
	if r.Fits != nil {
		if err := r.Fits(order); err != nil {
			return err
		}
	}
	if len(r.allocs) >= r.Most {
		return fmt.Errorf("this node holds %d allocations of jobs and takes no more", len(r.allocs))
	}
	for key := range r.allocs {
		if key.Job == order.GetAlloc().GetJob() && key.Epoch > order.GetAlloc().GetEpoch() {
			return fmt.Errorf("%w: run %d of the job is here already", ErrOrder, key.Epoch)
		}
	}
	return nil
}

// release lets a gang's script start, now or when its container is up.
func (r *Registry) release(order *pb.ReleaseBatch, do *Do) {
	p := r.allocs[KeyOf(order.GetAlloc())]
	if p == nil || p.Life.State() > job.Running {
		return
	}
	p.Released, p.Release = true, order
	if p.Life.State() != job.Preparing {
		do.startBatch(p)
	}
}

func (d *Do) startBatch(p *Alloc) {
	d.move(p, job.Running)
	d.pass(p, &pb.ControllerMessage{What: &pb.ControllerMessage_ReleaseBatch{ReleaseBatch: &pb.ReleaseBatch{
		Alloc: p.Key.Message(), NetworkPeers: p.Release.GetNetworkPeers(),
	}}})
}

// end ends an allocation, or answers how it ended.
func (r *Registry) end(order *pb.EndAlloc, now Time, do *Do) {
	key := KeyOf(order.GetAlloc())
	p := r.allocs[key]
	switch {
	case p != nil && p.Life.Over():
		do.ended(p.Result)
	case p != nil:
		r.End(p, order, do)
	case r.gone[key] != nil:
		do.ended(r.gone[key])
	default:
		do.ended(neverStarted(key, pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, "", now))
	}
}

// passOn passes an order on to the supervisor, once there is one. It answers false when
// the allocation is not here or over.
func (r *Registry) passOn(key Key, order *pb.ControllerMessage, do *Do) bool {
	p := r.allocs[key]
	if p == nil || p.Life.Over() {
		return false
	}
	do.pass(p, order)
	return true
}

// suspend passes an order on to the supervisor, which knows which of them counts. The
// daemon keeps the deadline too, for a supervisor that hangs.
func (r *Registry) suspend(order *pb.SuspendAlloc, now Time, do *Do) {
	p := r.allocs[KeyOf(order.GetAlloc())]
	order = came(order, now)
	message := &pb.ControllerMessage{What: &pb.ControllerMessage_SuspendAlloc{SuspendAlloc: order}}
	if !r.passOn(KeyOf(order.GetAlloc()), message, do) || order.GetNumber() < p.Park.Number {
		return
	}
	by := supervise.Within(order.GetWithinMs(), order.GetLateMs(), now.Boot)
	if !order.GetSuspended() || !order.GetPark() {
		p.Park.Deadline = supervise.Deadline{}
	} else if by.By != 0 {
		p.Park.Deadline = p.Park.Earlier(by)
	}
	p.Park.Number = order.GetNumber()
}

// came is an order to park with the time that is left of it when it comes, where its
// controller knows the node's clock.
func came(order *pb.SuspendAlloc, now Time) *pb.SuspendAlloc {
	within := time.Duration(order.GetWithinMs()) * time.Millisecond
	left := time.Duration(order.GetByBoottimeNs()) - now.Boot
	if within == 0 || order.GetByBoottimeNs() == 0 || left >= within {
		return order
	}
	order = proto.CloneOf(order)
	order.LateMs = 0 // what is left counts from the deadline
	return Waited(order, within-left)
}

// Waited is an order to park that has waited for so long, with the time that is left of it.
func Waited(order *pb.SuspendAlloc, since time.Duration) *pb.SuspendAlloc {
	if order.GetWithinMs() == 0 {
		return order
	}
	order = proto.CloneOf(order)
	order.WithinMs, order.LateMs = left(order.WithinMs, order.LateMs, since)
	return order
}

// WaitedHold is what Waited is, of what the owner says on the node.
func WaitedHold(word *pb.HoldAlloc, since time.Duration) *pb.HoldAlloc {
	if word.GetWithinMs() == 0 {
		return word
	}
	word = proto.CloneOf(word)
	word.WithinMs, word.LateMs = left(word.WithinMs, word.LateMs, since)
	return word
}

// left is what is left of some milliseconds after a while, at least one; and by how much the
// rest of that is more than there was.
func left(withinMS, lateMS uint32, since time.Duration) (uint32, uint32) {
	rest := int64(withinMS) - since.Milliseconds()
	return uint32(max(rest, 1)), uint32(min(int64(lateMS)+max(-rest, 0), math.MaxUint32))
}

// Signalled answers an order to send a signal; why = "" when it was sent.
func Signalled(order *pb.SignalAlloc, why string) *pb.NodeMessage {
	return &pb.NodeMessage{What: &pb.NodeMessage_SignalResult{SignalResult: &pb.SignalResult{Token: order.GetToken(), Error: Words(why)}}}
}

// save has an allocation saved, or answers how that ended, or that it is not here.
func (r *Registry) save(order *pb.SaveAlloc, message *pb.ControllerMessage, do *Do) {
	p := r.allocs[KeyOf(order.GetAlloc())]
	switch {
	case r.passOn(KeyOf(order.GetAlloc()), message, do):
	case p == nil:
		do.saved(NotSaved(order, errNotHere.Error()))
	case p.Saved.GetNumber() == order.GetNumber():
		do.saved(p.Saved)
	default:
		do.saved(NotSaved(order, ErrOver.Error()))
	}
}

// NotSaved says that an order to save came to nothing.
func NotSaved(order *pb.SaveAlloc, why string) *pb.AllocSaved {
	return &pb.AllocSaved{Alloc: order.GetAlloc(), Number: order.GetNumber(), Error: Words(why), Checkpointable: pb.Checkpointable_CHECKPOINTABLE_NOT_NOW}
}

// endedAcknowledged: a controller has the result of an allocation.
func (r *Registry) endedAcknowledged(key Key, do *Do) {
	p := r.allocs[key]
	if p == nil || p.Life.State() != job.Ended {
		return
	}
	do.move(p, job.Acknowledged)
	do.Done = p
}

// savedAcknowledged: a controller has heard how a save ended.
func (r *Registry) savedAcknowledged(m *pb.SavedAcknowledged) {
	p := r.allocs[KeyOf(m.GetAlloc())]
	if p != nil && p.Saved != nil && p.Saved.GetNumber() == m.GetNumber() {
		p.SavedKnown, p.Saved = p.Saved, nil
	}
}

package leader

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// maxReportsWaiting bounds the reports that wait for their commit. A node whose
// report finds no room waits, and its next reports with it.
const maxReportsWaiting = 4096

// report is one thing a node said about one allocation.
type report struct {
	session *session.Session
	alloc   session.Alloc
	// At most one of these is set; with none, the allocation is ready.
	ended     *pb.AllocEnded
	suspended *pb.AllocSuspended
	saved     *pb.AllocSaved
	fetched   *pb.Image // that is on this node too
}

func (r report) ref() state.AllocRef {
	return state.AllocRef{Job: r.alloc.Job, Epoch: r.alloc.Epoch, Node: r.session.Node()}
}

// Ready records that an allocation is up. It waits for room, not for the commit.
func (l *Leader) Ready(ctx context.Context, s *session.Session, ready *pb.AllocReady) error {
	alloc := session.AllocOf(ready.GetAlloc())
	s.Report(alloc, session.Reported{Ready: true, Network: ready.GetNetworkEnd()})
	return l.take(ctx, report{session: s, alloc: alloc})
}

// Suspended records what a node says of an order to stop or to continue. It
// waits for room, not for the commit.
func (l *Leader) Suspended(ctx context.Context, s *session.Session, said *pb.AllocSuspended) error {
	return l.take(ctx, report{session: s, alloc: session.AllocOf(said.GetAlloc()), suspended: said})
}

// Ended records the end of an allocation; the node gets its acknowledgement once
// that is committed. It waits for room, not for the commit.
func (l *Leader) Ended(ctx context.Context, s *session.Session, ended *pb.AllocEnded) error {
	alloc := session.AllocOf(ended.GetAlloc())
	s.Report(alloc, session.Reported{Ready: true, Over: true})
	return l.take(ctx, report{session: s, alloc: alloc, ended: ended})
}

func (l *Leader) take(ctx context.Context, r report) error {
	select {
	case l.reports <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commitReports commits what has gathered, in one command of each kind.
func (l *Leader) commitReports(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-l.reports:
			l.commitBatch(ctx, l.gather(first))
		}
	}
}

// CommitReports commits the reports that wait at this moment, if there are any.
func (l *Leader) CommitReports(ctx context.Context) {
	select {
	case first := <-l.reports:
		l.commitBatch(ctx, l.gather(first))
	default:
	}
}

// maxStepsAtOnce bounds what is said of steps in one entry of the log.
const maxStepsAtOnce = 4 << 20

// gather takes the reports that wait already; it does not wait for more.
func (l *Leader) gather(first report) []report {
	batch, bytes := []report{first}, 0
	for len(batch) < bounds.MaxReports && bytes < maxStepsAtOnce {
		select {
		case next := <-l.reports:
			batch, bytes = append(batch, next), bytes+proto.Size(next.ended.GetSteps())
		default:
			return batch
		}
	}
	return batch
}

// commitBatch commits the ready allocations before the saved and the ended
// ones: an allocation is always ready before it ends. Reports that would change
// nothing are left out: a node repeats itself whenever it connects, and must
// not be able to fill the log; so is the report that an allocation is ready
// whose script has ended meanwhile.
func (l *Leader) commitBatch(ctx context.Context, batch []report) {
	var ready state.AllocsReady
	var saved state.AllocsSaved
	var ended state.AllocsEnded
	var suspended state.AllocsSuspended
	var places state.NoteImagePlaces
	view := l.cluster.View()
	exited := make(map[state.AllocRef]bool)
	for _, r := range batch {
		if r.ended.GetCause() == pb.EndCause_END_CAUSE_EXITED {
			exited[r.ref()] = true
		}
	}
	for _, r := range batch {
		ref := r.ref()
		_, alloc := view.LiveAlloc(ref)
		awaited := r.ended != nil && (view.IsStray(ref) || view.IsStranger(ref))
		switch {
		case r.suspended != nil:
			if said := state.SuspendReportFromMessage(r.session.Node(), r.suspended); view.TellsSuspension(&said) {
				suspended.Reports = append(suspended.Reports, said)
			}
		case r.saved != nil:
			if said := state.SaveReportFromMessage(r.session.Node(), r.saved); view.SaveMatters(&said) {
				saved.Reports = append(saved.Reports, said)
			}
		case r.fetched != nil:
			if place := placeOf(r); view.PlaceMatters(&place) {
				places.Places = append(places.Places, place)
			}
		case alloc == nil && !awaited || r.ended == nil && (alloc.Ready || exited[ref]):
		case r.ended == nil:
			ready.Allocs = append(ready.Allocs, ref)
		default:
			ended.Reports = append(ended.Reports, state.ReportFromMessage(r.session.Node(), r.ended))
		}
	}
	committed := true
	if len(ready.Allocs) > 0 {
		_, committed = l.propose(ctx, ready)
	}
	if committed && len(suspended.Reports) > 0 {
		_, committed = l.propose(ctx, suspended)
	}
	if committed && len(saved.Reports) > 0 {
		_, committed = l.propose(ctx, saved)
	}
	if committed && len(places.Places) > 0 {
		_, committed = l.propose(ctx, places)
	}
	if committed && len(ended.Reports) > 0 {
		_, committed = l.propose(ctx, ended)
	}
	if committed {
		l.metrics.saves.reported(view, saved.Reports, ready.Allocs, ended.Reports)
	}
	for _, r := range batch {
		switch {
		case !committed:
			// The node reports it again when it connects again.
			r.session.Cut()
		case r.saved != nil:
			l.acknowledgeSave(r)
		case r.fetched != nil:
			l.noteFetched(r)
		case r.ended != nil:
			r.session.Forget(r.alloc)
			r.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_EndedAcknowledged{
				EndedAcknowledged: &pb.EndedAcknowledged{Alloc: r.alloc.ID()}}})
			l.log.Info("allocation ended", "job", r.alloc.Job, "epoch", r.alloc.Epoch, "node", r.session.Node(), "cause", r.ended.GetCause().String(), "detail", r.ended.GetDetail())
		}
	}
}

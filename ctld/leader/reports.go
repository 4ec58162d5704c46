package leader

import (
	"context"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// maxReportsWaiting bounds the reports that wait for their commit. A node
// whose report finds no room waits, and with it what it says next.
const maxReportsWaiting = 4096

// report is one thing a node said of one part.
type report struct {
	session *session.Session
	part    session.Part
	// Of these at most one is set; with none it is ready.
	ended     *pb.PartEnded
	suspended *pb.PartSuspended
	saved     *pb.PartSaved
}

func (r report) ref() state.PartRef {
	return state.PartRef{Job: r.part.Job, Epoch: r.part.Epoch, Node: r.session.Node()}
}

// Ready takes in that a part is up. It waits for room, not for the commit.
func (l *Leader) Ready(ctx context.Context, s *session.Session, ready *pb.PartReady) error {
	part := session.PartOf(ready.GetPart())
	s.Report(part, session.Reported{Ready: true})
	return l.take(ctx, report{session: s, part: part})
}

// Suspended takes in what a node says of an order to stand still or to go on. It
// waits for room, not for the commit.
func (l *Leader) Suspended(ctx context.Context, s *session.Session, said *pb.PartSuspended) error {
	return l.take(ctx, report{session: s, part: session.PartOf(said.GetPart()), suspended: said})
}

// Ended takes in the end of a part; the node gets its acknowledgement once
// that is committed. It waits for room, not for the commit.
func (l *Leader) Ended(ctx context.Context, s *session.Session, ended *pb.PartEnded) error {
	part := session.PartOf(ended.GetPart())
	s.Report(part, session.Reported{Ready: true, Over: true})
	return l.take(ctx, report{session: s, part: part, ended: ended})
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

// CommitReports commits what waits at this moment, if anything does.
func (l *Leader) CommitReports(ctx context.Context) {
	select {
	case first := <-l.reports:
		l.commitBatch(ctx, l.gather(first))
	default:
	}
}

// gather takes what waits already; it does not wait for more.
func (l *Leader) gather(first report) []report {
	batch := []report{first}
	for len(batch) < state.MaxReports {
		select {
		case next := <-l.reports:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// commitBatch commits the ready parts before the saved and the ended ones: a part
// is always ready before it ends. What a restore waits for is told to it. What would change nothing is left out: a node repeats
// itself whenever it connects, and must not be able to fill the log; and that
// a part is ready of which the script has ended meanwhile.
func (l *Leader) commitBatch(ctx context.Context, batch []report) {
	var ready state.PartsReady
	var saved state.PartsSaved
	var ended state.PartsEnded
	var suspended state.PartsSuspended
	view := l.cluster.View()
	exited := make(map[state.PartRef]bool)
	for _, r := range batch {
		if r.ended.GetCause() == pb.EndCause_END_CAUSE_EXITED {
			exited[r.ref()] = true
		}
	}
	for _, r := range batch {
		ref := r.ref()
		_, part := view.LivePart(ref)
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
		case part == nil && !awaited || r.ended == nil && (part.Ready || exited[ref]):
		case r.ended == nil:
			ready.Parts = append(ready.Parts, ref)
		default:
			ended.Reports = append(ended.Reports, state.ReportFromMessage(r.session.Node(), r.ended))
		}
	}
	committed := true
	if len(ready.Parts) > 0 {
		_, committed = l.propose(ctx, ready)
	}
	if committed && len(suspended.Reports) > 0 {
		_, committed = l.propose(ctx, suspended)
	}
	if committed && len(saved.Reports) > 0 {
		_, committed = l.propose(ctx, saved)
	}
	if committed && len(ended.Reports) > 0 {
		_, committed = l.propose(ctx, ended)
	}
	if committed {
		l.metrics.saves.reported(view, saved.Reports, ready.Parts, ended.Reports)
	}
	for _, r := range batch {
		switch {
		case !committed:
			// The node says it again when it connects again.
			r.session.Cut()
		case r.saved != nil:
			l.acknowledgeSave(r)
		case r.ended != nil:
			r.session.Forget(r.part)
			r.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_EndedAcknowledged{
				EndedAcknowledged: &pb.EndedAcknowledged{Part: r.part.ID()}}})
			l.log.Info("part ended", "job", r.part.Job, "epoch", r.part.Epoch, "node", r.session.Node(), "cause", r.ended.GetCause().String(), "detail", r.ended.GetDetail())
		}
	}
}

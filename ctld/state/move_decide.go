package state

import (
	"fmt"
	"math"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file decides moves. Each move ends in one of two ways, whichever comes
// first in the log: the job has moved, in the very command that records that
// the last allocation of the successor is ready; or the move is called off.
// Both clear Run.Move, and later commands about a move that is gone do nothing.

// FailMoves reports moves that cannot continue as they are: a node answers that
// it cannot resume from the image, or the time is over. It may be applied twice
// without harm.
type FailMoves struct {
	Moves []MoveRef `cbor:"1,keyasint"`
}

// MoveRef names a move by its image and says why it fails.
type MoveRef struct {
	Job    uint32 `cbor:"1,keyasint"`
	Number uint32 `cbor:"2,keyasint"`
	// Epoch is that of the successor which cannot continue, and Node is where;
	// 0 = the move is called off.
	Epoch  uint32 `cbor:"3,keyasint,omitempty"`
	Node   string `cbor:"4,keyasint,omitempty"`
	Reason string `cbor:"5,keyasint,omitempty"`
}

func (FailMoves) kind() Kind { return KindFailMoves }
func (c FailMoves) apply(s *State, result *Result) {
	if len(c.Moves) > bounds.MaxTargets {
		result.Refused = refuse(Exhausted, "%d moves in one entry are too many: at most %d", len(c.Moves), bounds.MaxTargets)
		return
	}
	for i := range c.Moves {
		ref := &c.Moves[i]
		job, known := s.Job(ref.Job)
		if !known || job.Moving() == nil || job.Run.Move.Number != ref.Number {
			continue
		}
		successor := job.Successor()
		switch {
		case ref.Epoch == 0:
			s.putJob(s.calledOff(job, ref.Reason))
		case successor != nil && successor.Epoch == ref.Epoch:
			s.tryFailed(job, successor, ref.Node, ref.Reason)
		}
	}
}

// LateMoves are moves whose original has been frozen for as long as it may,
// nowMS being the leader's clock.
func (v *View) LateMoves(nowMS int64) []MoveRef {
	var late []MoveRef
	for job := range v.WithImages {
		if !job.frozenToMove() || job.Run.Move.DeadlineMS > nowMS || len(late) == bounds.MaxTargets {
			continue
		}
		why := "no other node could resume it"
		if successor := job.Successor(); successor != nil {
			why = fmt.Sprintf("node %s had not restored it", words.FormatHostList(successor.Run.nodes()))
		}
		late = append(late, MoveRef{Job: job.ID, Number: job.Run.Move.Number, Reason: fmt.Sprintf("%s within %d minutes", why, moveLimitMS/60_000)})
	}
	return late
}

// imageMade has a job continue to be moved, now that its image is durable and
// it is frozen by it. next saves nothing from now on.
func (s *State) imageMade(next *Job, number uint32) {
	move := next.Run.Move
	if move == nil || move.Number != number || next.Successor() == nil {
		next.abortSave(number) // there is no node to move to any longer
		s.putJob(next)
		return
	}
	if next.Saved.image(number).Locks {
		s.leaveFirst(next)
		return
	}
	next = next.withBeside()
	moving := *move
	moving.Made, moving.DeadlineMS = true, s.timeMS+moveLimitMS
	next.Run.Move, next.Run.Abandoned = &moving, 0 // an earlier one that was told of late
	image := *next.Saved.image(number)
	next.Successor().Run.Restore = &image
	s.putJob(next)
}

// leaveFirst ends the run of a job that moves and holds locks on files: while
// it is frozen, the restored processes would wait for these locks forever. Its
// image is durable, and the job waits for room on the nodes that were asked
// for.
func (s *State) leaveFirst(job *Job) {
	next := s.leaving(job)
	next.decided(&End{
		State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Frozen: true,
		Detail: fmt.Sprintf("moved from node %s, where it held locks on files: resumes from image %d", words.FormatHostList(job.Run.nodes()), job.Run.Move.Number),
	})
	s.putJob(next)
}

// replaceNodes ends the run of a job that is to have other nodes in place of some of its
// own. Its image is durable, and the job waits for room on the nodes that were asked for.
func (s *State) replaceNodes(job *Job, saving *Saving) {
	next, saved := job.withSaved()
	saved.To, saved.From, saved.UntilMS = saving.To, "", s.timeMS+moveWishMS
	next.decided(&End{
		State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Frozen: true,
		Detail: fmt.Sprintf("moved from node %s to node %s: resumes from image %d", words.FormatHostList(job.Run.nodes()), words.FormatHostList(saving.To), saving.Number),
	})
	s.putJob(next)
}

// leaving is a copy of a job whose run ends with the image of its move. For a
// while it wants the nodes that were named, or any but its own.
func (s *State) leaving(job *Job) *Job {
	next, saved := job.withSaved()
	move := job.Run.Move
	saved.To, saved.From, saved.UntilMS = move.To, "", s.timeMS+moveWishMS
	if len(move.To) == 0 {
		saved.From = job.Run.BatchHost()
	}
	return next
}

// besideReady notes that an allocation of another run is up. With the last
// allocation of a successor the move is decided: from now on that is the job's
// run.
func (s *State) besideReady(job *Job, ref AllocRef) {
	next := job.withBeside()
	b := next.Run.beside(ref.Epoch)
	alloc := next.as(b).Alloc(ref.Node)
	if alloc.Ready {
		return
	}
	alloc.Ready = true
	s.putJob(next)
	if b.Over || !next.frozenToMove() || next.as(b).Configuring() {
		return
	}
	s.takeOver(next, b)
}

// beside finds a run by its epoch; nil when there is none.
func (r *Run) beside(epoch uint32) *Beside {
	for i := range r.Beside {
		if r.Beside[i].Epoch == epoch {
			return &r.Beside[i]
		}
	}
	return nil
}

// takeOver makes the successor the job's run. The original has left: it is
// ended while frozen, and is never told to continue.
func (s *State) takeOver(job *Job, b *Beside) {
	s.chargeUsage(job)
	next, saved := job.withSaved()
	image := saved.image(job.Run.Move.Number)
	if image != nil {
		saved.StandingMS += uint64(max(s.timeMS-image.SavedMS-int64(image.StandingMS), 0))
		saved.keepWork(job)
	}
	saved.forgetTries()
	saved.MoveFailed = nil
	saved.To = job.Run.Move.To
	saved.From, saved.UntilMS = "", 0

	run, original := *b.Run, *job.Run
	original.Move, original.Beside, original.Abandoned = nil, nil, 0
	run.StartMS = s.timeMS
	run.Relimited, run.LimitS = job.Run.Relimited, job.Run.LimitS
	run.LastEpoch, run.Numbered = max(job.Run.LastEpoch, b.Epoch), saved.Number
	for _, other := range job.Run.Beside {
		if other.Over {
			run.Beside = append(run.Beside, other)
		}
	}
	run.Beside = append(run.Beside, Beside{Epoch: job.Epoch, Run: &original, Over: true})
	next.Epoch, next.Run = b.Epoch, &run
	next.goesOn()
	s.putJob(next)
}

// besideEnded records that nothing is left of an allocation of another run, or
// that a successor says that it could not resume there.
func (s *State) besideEnded(job *Job, report *AllocReport) {
	next := job.withBeside()
	b := next.Run.beside(report.Epoch)
	alloc := next.as(b).Alloc(report.Node)
	alloc.Released = true
	if !alloc.Ready {
		next.avoid(report, s.timeMS)
	}
	coming := !b.Over
	b.Over = true
	if next.as(b).allReleased() {
		next.Run.drop(b.Epoch)
	}
	switch {
	case coming:
		s.putJob(next)
		s.tryAgain(next, MoveTry{Nodes: job.Run.beside(report.Epoch).Run.nodes(), Node: report.Node, Reason: notRestored(report)})
	case next.Phase == Ending && next.allReleased():
		s.putJob(s.close(next))
	default:
		s.putJob(next)
	}
	s.noteOver(job, report)
	s.noteLoss(report)
	if !alloc.Ready {
		s.noteFault(report, job.Owner().UID)
	}
}

// drop forgets a run that holds nothing any longer.
func (r *Run) drop(epoch uint32) {
	kept := r.Beside[:0]
	for _, b := range r.Beside {
		if b.Epoch != epoch {
			kept = append(kept, b)
		}
	}
	r.Beside = kept
	if len(kept) == 0 {
		r.Beside = nil
	}
}

// notRestored says in words why an allocation of a successor failed.
func notRestored(report *AllocReport) string {
	what := "it was not restored"
	switch report.Cause {
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED:
		what = "its supervisor died while it was restored"
	case pb.EndCause_END_CAUSE_NODE_FULL:
		what = "the disk is full"
	case pb.EndCause_END_CAUSE_IMAGE_AWAY:
		what = "its image did not come"
	case pb.EndCause_END_CAUSE_UNKNOWN_ALLOC:
		what = "the node has lost it"
	case pb.EndCause_END_CAUSE_LEASE_ENDED:
		what = "the node's lease ended"
	}
	if report.Detail != "" {
		what += ": " + report.Detail
	}
	return what
}

// tryFailed gives up a successor that cannot resume on some node.
func (s *State) tryFailed(job *Job, b *Beside, node, why string) {
	try := MoveTry{Nodes: b.Run.nodes(), Node: node, Reason: why}
	next := job.withBeside()
	if b.ordered() {
		next.Run.beside(b.Epoch).Over = true
	} else {
		next.Run.drop(b.Epoch)
	}
	s.putJob(next)
	s.tryAgain(next, try)
}

// tryAgain tries to move a job elsewhere after a failed try, or calls the move
// off. The job is stored, and has no successor.
func (s *State) tryAgain(job *Job, try MoveTry) {
	move := *job.Run.Move
	try.Reason = bounds.Clip(try.Reason, bounds.MaxTextBytes)
	move.Tries = append(move.Tries[:len(move.Tries):len(move.Tries)], try)
	next, run := *job, *job.Run
	next.Run = &run
	run.Move = &move
	failed := fmt.Sprintf("node %s could not resume it: %s", try.Node, try.Reason)
	switch {
	case len(move.To) > 0:
		s.putJob(s.calledOff(&next, failed))
		return
	case len(move.Tries) >= maxMoveTries || len(run.Beside) >= maxBeside:
		s.putJob(s.calledOff(&next, fmt.Sprintf("%d nodes were tried, and none could resume it; %s", len(move.Tries), failed)))
		return
	}
	image := imageNeed(&next)
	if move.Made {
		image = *next.Saved.image(move.Number)
	}
	successor, why := s.successor(&next, &move, &image)
	if successor == nil {
		s.putJob(s.calledOff(&next, joinSentences(failed, "there is no other node with room for it"+colon(why))))
		return
	}
	if move.Made {
		successor.Restore = &image
	}
	s.putJob(s.placed(&next, successor))
}

func colon(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// targetsLost calls off the moves to a node that does not respond. Their
// originals need not stay frozen until it does.
func (s *State) targetsLost(node *Node) {
	for _, id := range node.use.jobs {
		job, _ := s.Job(id)
		successor := job.Successor()
		if job.Moving() == nil || successor == nil || job.as(successor).Alloc(node.Name) == nil {
			continue
		}
		move := *job.Run.Move
		move.Tries = append(move.Tries[:len(move.Tries):len(move.Tries)], MoveTry{Nodes: successor.Run.nodes(), Node: node.Name, Reason: "it does not respond"})
		next, run := *job, *job.Run
		next.Run, run.Move = &run, &move
		s.putJob(s.calledOff(&next, "node "+node.Name+" does not respond any more"))
	}
}

// lostFrozen is the end of a run that was frozen by its image, to go on elsewhere, and
// has lost an allocation: nothing is lost with it, and it resumes from there.
// false is the answer if it ended otherwise.
func (s *State) lostFrozen(job *Job, report *AllocReport) (*Job, End, bool) {
	switch report.Cause {
	case pb.EndCause_END_CAUSE_SUPERVISOR_DIED, pb.EndCause_END_CAUSE_UNKNOWN_ALLOC, pb.EndCause_END_CAUSE_LEASE_ENDED:
	default:
		return job, End{}, false
	}
	number := job.frozenBy()
	if number == 0 {
		return job, End{}, false
	}
	if job.frozenToMove() {
		job = s.leaving(job)
	}
	detail := withColon("the job was frozen to be moved and was lost", report.Node, report.Detail)
	return job, End{
		State: pb.JobState_JOB_STATE_RUNNING, Requeue: true, Frozen: true,
		Detail: bounds.Clip(fmt.Sprintf("%s; resumes from image %d", detail, number), bounds.MaxTextBytes),
	}, true
}

// frozenBy is the number of the image by which a run is frozen, to go on from there
// elsewhere; 0 = it is not.
func (j *Job) frozenBy() uint32 {
	switch {
	case j.frozenToMove():
		return j.Run.Move.Number
	case j.Phase != Running:
		return 0
	case j.Run.Away != nil:
		return j.Run.Away.Number
	case j.Run.Suspension != nil:
		return j.Run.Suspension.Packed
	}
	return 0
}

// notePreemption counts a preemption, and what it has cost.
func (j *Job) notePreemption(lostGPUMS int64) {
	preempted := j.LostBefore()
	preempted.Count++
	preempted.LostGPUMS += min(max(lostGPUMS, 0), math.MaxInt64-preempted.LostGPUMS)
	j.Before = &preempted
}

package leader

import (
	"context"
	"slices"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/sched/interval"
)

// This file has what the leader does about jobs that are saved. Whether one can
// be is its node's word (PartGrade), and soft: it changes with each connection
// that a job opens, and nothing that must not be lost hangs on it. A node tells it
// to each controller that it connects to; until then the job counts as one that
// cannot be saved, and if it is ordered all the same the node says no.

// keepSavedEvery is how often saves that are due, and late ones, are looked for,
// and nodes asked again.
const keepSavedEvery = time.Second

// keepSaved orders what is due and gives up what is late.
func (l *Leader) keepSaved(ctx context.Context) {
	ticker := time.NewTicker(keepSavedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.asksWake:
		case <-ticker.C:
		}
		l.KeepSaved(ctx, time.Now())
	}
}

// KeepSaved does that once, now being the wall clock's time.
func (l *Leader) KeepSaved(ctx context.Context, now time.Time) {
	view := l.cluster.View()
	if view.Level() < state.LevelFrozen || len(view.Awaited()) > 0 {
		return
	}
	if late := view.LateSaves(now.UnixMilli()); len(late) > 0 {
		if _, ok := l.propose(ctx, state.AbandonSaves{Saves: late}); ok {
			l.metrics.saves.failed.Add(float64(len(late)))
			l.log.Warn("saves are given up: their nodes do not say how they ended", "count", len(late), "first_job", late[0].Job, "reason", late[0].Reason)
		}
	}
	due := l.dueSaves(view, now)
	for chunk := range slices.Chunk(due, state.MaxTargets) {
		l.propose(ctx, state.SaveJobs{Targets: chunk, Privileged: true, Purpose: state.SaveInterval})
	}
	l.askRestores(ctx, view, now)
}

// retrySave is after how long at most a save that failed is tried again.
const retrySave = 10 * time.Minute

// dueSaves are the jobs that are to be saved now without anybody asking.
func (l *Leader) dueSaves(view *state.View, now time.Time) []state.Target {
	var due []state.Target
	for job := range view.LiveJobs() {
		every := intervalOf(view, job, now)
		if every == 0 || !view.MaySave(job) || !l.savable(job, now) {
			continue
		}
		last := job.Run.StartMS
		if images := job.Images(); len(images) > 0 && images[0].Epoch == job.Epoch {
			last = max(last, images[0].SavedMS)
		}
		at := time.UnixMilli(last).Add(every)
		if saved := job.Saved; saved != nil && saved.FailedMS > last {
			at = time.UnixMilli(saved.FailedMS).Add(min(every, retrySave))
		}
		if !now.Before(at) {
			due = append(due, state.Target{Job: job.ID})
		}
	}
	return due
}

// guessedCost is what a save costs a job of which none was measured yet.
const guessedCost = 10 * time.Second

// intervalOf is how often a running job is saved without anybody asking; 0 = not.
func intervalOf(view *state.View, job *state.Job, now time.Time) time.Duration {
	asked := job.Spec.Checkpoint
	switch {
	case job.Phase != state.Running:
		return 0
	case asked.IntervalS > 0:
		return time.Duration(asked.IntervalS) * time.Second
	case !asked.IntervalAuto:
		return 0
	}
	cost := guessedCost
	if images := job.Images(); len(images) > 0 {
		// While it is packed the job runs on: that costs it little.
		cost = max(time.Duration(images[0].StandingMS)*time.Millisecond, 10*time.Millisecond)
	}
	rate := 0.0 // losses a second of all its nodes: with each the job is lost
	for i := range job.Run.Parts {
		node, known := view.Node(job.Run.Parts[i].Node)
		if !known {
			return 0
		}
		watched := time.Duration(0)
		if node.WatchedMS != 0 {
			watched = now.Sub(time.UnixMilli(node.WatchedMS))
		}
		rate += 1 / interval.MeanBetween(watched.Seconds(), node.Losses)
	}
	return time.Duration(interval.Best(cost.Seconds(), 1/rate)) * time.Second
}

// savableAgain is after how long a job whose save failed counts as one that can be
// saved to make room.
const savableAgain = 5 * time.Minute

// savable says whether a running job could be saved now: all its parts.
func (l *Leader) savable(job *state.Job, _ time.Time) bool {
	if job.NotSavable() != "" {
		return false
	}
	for i := range job.Run.Parts {
		s := l.sessions.Get(job.Run.Parts[i].Node)
		if s == nil || !s.Grade(session.Part{Job: job.ID, Epoch: job.Epoch}).Savable() {
			return false
		}
	}
	return true
}

// told is what nodes told, for a snapshot of a view.
func (l *Leader) told(view *state.View, now time.Time) state.Told {
	return state.Told{
		Savable: func(job *state.Job) bool {
			failed := job.Saved != nil && now.Sub(time.UnixMilli(job.Saved.FailedMS)) < savableAgain
			return !failed && l.savable(job, now)
		},
		Restorable: func(job *state.Job) []string { return l.restores.nodes(l.sessions, view, job, now) },
	}
}

// Saved takes in how a save ended; the node gets its acknowledgement once that is
// committed. It waits for room, not for the commit.
func (l *Leader) Saved(ctx context.Context, s *session.Session, saved *pb.PartSaved) error {
	part := session.PartOf(saved.GetPart())
	if grade := saved.GetGrade(); grade != pb.SaveGrade_SAVE_GRADE_UNSPECIFIED {
		l.Graded(s, &pb.PartGrade{Part: saved.GetPart(), Grade: grade, Reason: saved.GetError()})
	}
	return l.take(ctx, report{session: s, part: part, saved: saved})
}

// Graded takes in whether a part can be saved.
func (l *Leader) Graded(s *session.Session, grade *pb.PartGrade) {
	if s.SetGrade(session.PartOf(grade.GetPart()), session.Grade{Grade: grade.GetGrade(), Reason: shortened(grade.GetReason())}) {
		wake(l.freedWake)
	}
}

// acknowledgeSave tells a node that how a save ended is known for good. What is
// needed of images is told before it or after, never of a state from before.
func (l *Leader) acknowledgeSave(r report) {
	l.keeping.Lock()
	r.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavedAcknowledged{
		SavedAcknowledged: &pb.SavedAcknowledged{Part: r.part.ID(), Number: r.saved.GetNumber()}}})
	l.keeping.Unlock()
	about := []any{"job", r.part.Job, "epoch", r.part.Epoch, "node", r.session.Node(), "image", r.saved.GetNumber()}
	if r.saved.GetImage() == nil {
		l.log.Warn("job was not saved and runs on; gcontrol show job says what would help", append(about, "error", r.saved.GetError())...)
		return
	}
	l.log.Info("job saved", append(about, "bytes", r.saved.GetImage().GetBytes(), "written_bytes", r.saved.GetWrittenBytes(),
		"standing_ms", r.saved.GetStandingMs(), "pack_ms", r.saved.GetPackMs(), "stands", r.saved.GetStands())...)
}

// keepImages tells each connected node which images are needed of those that it
// made, if that is not what it was told last. While a restore awaits nodes it is
// not known which are.
func (l *Leader) keepImages() {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	view := l.cluster.View()
	if view.Level() < state.LevelFrozen || len(view.Awaited()) > 0 || !l.Leading() {
		return
	}
	needed := view.NeededImages()
	for _, s := range l.sessions.All() {
		s.KeepImages(&pb.KeepImages{Images: needed[s.Node()]})
	}
}

// orderSave sends the order of a save, or to take one back.
func orderSave(s *session.Session, part session.Part, wanted state.WantedPart) {
	switch {
	case wanted.Save != 0:
		order := &pb.SavePart{Part: part.ID(), Number: wanted.Save, Then: pb.SaveThen_SAVE_THEN_GO_ON, TimeoutS: state.SaveTimeoutS}
		if wanted.Stand {
			order.Then = pb.SaveThen_SAVE_THEN_STAND
		}
		if stores := s.Saving().GetStores(); len(stores) > 0 {
			order.Store = stores[0] // other nodes reach it, also when this one is gone
		}
		s.Save(order)
	case wanted.Abandon != 0:
		s.Save(&pb.SavePart{Part: part.ID(), Number: wanted.Abandon, Abandon: true})
	}
}

// OverlaySaved adds to what is said of a job whether it can be saved, and how
// often it is; of one that was saved and waits, where it can go on.
func (l *Leader) OverlaySaved(job *state.Job, overlay *state.Overlay) {
	switch job.Phase {
	case state.Running:
		overlay.IntervalS = uint32(intervalOf(l.cluster.View(), job, time.Now()).Seconds())
		overlay.Grade, overlay.GradeReason = l.gradeOf(job)
	case state.Waiting:
		if job.NextImage() != nil && overlay.Reason != "" {
			overlay.Detail = join(overlay.Detail, l.restores.sentence(l.sessions, l.cluster.View(), job, time.Now()))
		}
	}
}

// gradeOf is the word for whether a running job can be saved, and why not: that of
// the part that is the most in the way.
func (l *Leader) gradeOf(job *state.Job) (word, reason string) {
	if why := job.NotSavable(); why != "" {
		return "NO", why
	}
	var worst session.Grade
	for i := range job.Run.Parts {
		node := job.Run.Parts[i].Node
		s := l.sessions.Get(node)
		if s == nil {
			return "", ""
		}
		grade := s.Grade(session.Part{Job: job.ID, Epoch: job.Epoch})
		if grade.Grade == pb.SaveGrade_SAVE_GRADE_UNSPECIFIED {
			return "", ""
		}
		if grade.Grade > worst.Grade {
			worst = grade
			if job.IsGang() && grade.Reason != "" {
				worst.Reason = "node " + node + ": " + grade.Reason
			}
		}
	}
	return gradeWords[worst.Grade], worst.Reason
}

var gradeWords = map[pb.SaveGrade]string{
	pb.SaveGrade_SAVE_GRADE_YES: "YES", pb.SaveGrade_SAVE_GRADE_LIKELY: "LIKELY",
	pb.SaveGrade_SAVE_GRADE_NOT_NOW: "NOT_NOW", pb.SaveGrade_SAVE_GRADE_NO: "NO",
}

func join(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// shortened bounds a sentence that a node sent, which is kept for each part.
func shortened(text string) string {
	const most = 1024
	for i := range text {
		if i > most {
			return text[:i]
		}
	}
	return text
}

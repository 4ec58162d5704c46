package leader

import (
	"bytes"
	"context"
	"math"
	"slices"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/sched/habit"
	"github.com/gleaner-hpc/gleaner/sched/interval"
)

// This file has what the leader does about saves. A job's node says whether the
// job can be saved (AllocCheckpointable), and that is soft state: it changes
// with each connection that a job opens, and nothing that must not be lost
// depends on it. A node reports it to each controller that it connects to;
// until then the job counts as one that cannot be saved. If a save is ordered
// nevertheless, the node refuses.

// keepSavedEvery is how often due saves and late ones are looked for, and nodes
// asked again.
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
	if len(view.Awaited()) > 0 {
		return
	}
	if late := view.LateSaves(now.UnixMilli()); len(late) > 0 {
		if _, ok := l.propose(ctx, state.AbandonSaves{Saves: late}); ok {
			l.metrics.saves.failed.Add(float64(len(late)))
			l.log.Warn("saves are given up: their nodes do not say how they ended", "count", len(late), "first_job", late[0].Job, "reason", late[0].Reason)
		}
	}
	due := l.dueSaves(view, now)
	for chunk := range slices.Chunk(due, bounds.MaxTargets) {
		l.propose(ctx, state.SaveJobs{Targets: chunk, Privileged: true, Purpose: state.SaveInterval})
	}
	l.packParked(ctx, view, now)
	l.evacuate(ctx, view, now)
	l.askRestores(ctx, view, now)
	l.copyImages(view)
}

// retrySave is how long at most until a failed save is tried again.
const retrySave = 10 * time.Minute

// dueSaves are the jobs that should be saved now without a request.
func (l *Leader) dueSaves(view *state.View, now time.Time) []state.Target {
	var due []state.Target
	for job := range view.LiveJobs() {
		every := intervalOf(view, job, now)
		if every == 0 || !view.MaySave(job) || !l.savable(job) {
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

// guessedCost is what a save costs a job before the first was measured.
const guessedCost = 10 * time.Second

// intervalOf is how often a running job is saved without a request; 0 = never.
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
		// While it is packed the job runs: that costs it little.
		cost = max(time.Duration(images[0].StandingMS)*time.Millisecond, 10*time.Millisecond)
	}
	mean := meanBetweenLosses(view, job, now)
	if mean == 0 {
		return 0
	}
	return time.Duration(interval.Best(cost.Seconds(), mean)) * time.Second
}

// meanBetweenLosses is how many seconds a running job would run on its nodes, on average,
// until it loses its run: with a node that fails, or to an owner who takes one back. 0 =
// nobody knows.
func meanBetweenLosses(view *state.View, job *state.Job, now time.Time) float64 {
	rate := 0.0 // losses a second of all its nodes: the job is lost with each of them
	for i := range job.Run.Allocs {
		node, known := view.Node(job.Run.Allocs[i].Node)
		if !known {
			return 0
		}
		watched := time.Duration(0)
		if node.WatchedMS != 0 {
			watched = now.Sub(time.UnixMilli(node.WatchedMS))
		}
		rate += 1 / interval.MeanBetween(watched.Seconds(), node.Losses)
		taken, lost := view.TakenPerWeek(job, node, logTime(view, now))
		rate += float64(taken) / habit.One * float64(lost) / habit.One / weekSeconds
	}
	return 1 / rate
}

const weekSeconds = 7 * 24 * 3600

// savableAgain is how long a job whose save failed does not count as one that
// can be saved to make room.
const savableAgain = 5 * time.Minute

// savable reports whether a save of a running job may be tried now: of all its allocations.
// One that failed has said why it cannot be saved, and nothing but another try takes that
// back: so those who ask wait for a while after a failure, and then try again.
func (l *Leader) savable(job *state.Job) bool {
	if job.NotSavable() != "" {
		return false
	}
	for i := range job.Run.Allocs {
		s := l.sessions.Get(job.Run.Allocs[i].Node)
		if s == nil || !s.Checkpointable(session.Alloc{Job: job.ID, Epoch: job.Epoch}).MayTry() {
			return false
		}
	}
	return true
}

// told is what nodes have reported, for a snapshot of a view.
func (l *Leader) told(view *state.View, now time.Time) state.NodeReports {
	hours := unlent{now: now}
	return state.NodeReports{
		Reserved: repeats(now), Unlent: hours.of,
		Savable: func(job *state.Job) bool {
			failed := job.Saved != nil && now.Sub(time.UnixMilli(job.Saved.FailedMS)) < savableAgain
			return !failed && l.savable(job)
		},
		Restorable: func(job *state.Job, image *state.Image) []string {
			return l.restores.nodes(l.sessions, view, job, image, now)
		},
		Pulls: func(job *state.Job) (bool, []string) { return l.pulls.of(l.sessions, job, l.clock()) },
	}
}

// Saved records how a save ended; the node gets its acknowledgement once that is
// committed. It waits for room, not for the commit.
func (l *Leader) Saved(ctx context.Context, s *session.Session, saved *pb.AllocSaved) error {
	alloc := session.AllocOf(saved.GetAlloc())
	if checkpointable := saved.GetCheckpointable(); checkpointable != pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED {
		l.Checkpointable(s, &pb.AllocCheckpointable{Alloc: saved.GetAlloc(), Checkpointable: checkpointable, Reason: saved.GetError()})
	}
	return l.take(ctx, report{session: s, alloc: alloc, saved: saved})
}

// Checkpointable records whether an allocation can be saved.
func (l *Leader) Checkpointable(s *session.Session, checkpointable *pb.AllocCheckpointable) {
	if s.SetCheckpointable(session.AllocOf(checkpointable.GetAlloc()), session.Checkpointable{Checkpointable: checkpointable.GetCheckpointable(), Reason: shortened(checkpointable.GetReason()), Tried: checkpointable.GetTried()}) {
		wake(l.freedWake)
	}
}

// acknowledgeSave tells a node that the outcome of a save is committed. Which
// images are needed is told before or after that, never from an older state.
func (l *Leader) acknowledgeSave(r report) {
	l.keeping.Lock()
	r.session.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SavedAcknowledged{
		SavedAcknowledged: &pb.SavedAcknowledged{Alloc: r.alloc.ID(), Number: r.saved.GetNumber()}}})
	l.keeping.Unlock()
	about := []any{"job", r.alloc.Job, "epoch", r.alloc.Epoch, "node", r.session.Node(), "image", r.saved.GetNumber()}
	if r.saved.GetImage() == nil {
		l.log.Warn("job was not saved and runs on; gcontrol show job says what would help", append(about, "error", r.saved.GetError())...)
		return
	}
	l.log.Info("job saved", append(about, "bytes", r.saved.GetImage().GetBytes(), "written_bytes", r.saved.GetWrittenBytes(),
		"standing_ms", r.saved.GetStandingMs(), "pack_ms", r.saved.GetPackMs(), "frozen", r.saved.GetFrozen())...)
}

// keepImages tells each connected node which of its images are needed, if that
// has changed. While a restore awaits nodes this is not known.
func (l *Leader) keepImages() {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	view := l.cluster.View()
	if len(view.Awaited()) > 0 || !l.Leading() {
		return
	}
	needed, staged := view.NeededImages(), view.StagedJobs()
	any := make(map[string]bool)
	for _, images := range needed {
		for _, image := range images {
			any[string(image.GetDigest())] = true
		}
	}
	for _, s := range l.sessions.All() {
		keep := slices.Clone(needed[s.Node()])
		// Two nodes that use one directory by mistake do not delete each other's.
		for _, image := range s.HeldOfOthers() {
			if any[string(image.GetDigest())] && !slices.ContainsFunc(keep, func(k *pb.Image) bool { return bytes.Equal(k.GetDigest(), image.GetDigest()) }) {
				keep = append(keep, image)
			}
		}
		s.KeepImages(&pb.KeepImages{Images: keep, StagedJobs: staged[s.Node()]})
	}
}

// orderSave sends the order for a save, or to take one back.
func orderSave(s *session.Session, alloc session.Alloc, wanted state.WantedAlloc) {
	switch {
	case wanted.Save != 0:
		order := &pb.SaveAlloc{Alloc: alloc.ID(), Number: wanted.Save, Then: pb.SaveThen_SAVE_THEN_RESUME, TimeoutS: state.SaveTimeoutS}
		if wanted.Stand {
			order.Then = pb.SaveThen_SAVE_THEN_FREEZE
		}
		if stores := s.Saving().GetStores(); len(stores) > 0 {
			order.Store = stores[0] // other nodes reach it, even if this one is gone
		}
		s.Save(order)
	case wanted.Abandon != 0:
		s.Save(&pb.SaveAlloc{Alloc: alloc.ID(), Number: wanted.Abandon, Abandon: true})
	}
}

// OverlaySaved adds whether a running job can be saved, and how often it is;
// for a saved job that waits, where it can resume.
func (l *Leader) OverlaySaved(job *state.Job, overlay *state.Overlay) {
	switch job.Phase {
	case state.Ending:
		overlay.Preparing = l.preparing(job) // nodes still copy files
	case state.Running:
		view, now := l.cluster.View(), time.Now()
		overlay.IntervalS = uint32(intervalOf(view, job, now).Seconds())
		if job.Spec.Checkpoint.IntervalAuto {
			overlay.MeanBetweenLossesS = uint32(min(meanBetweenLosses(view, job, now), math.MaxUint32))
		}
		overlay.Checkpointable, overlay.CheckpointableReason = l.checkpointableOf(job)
		overlay.Preparing = l.preparing(job)
	case state.Waiting:
		view, now := l.cluster.View(), l.clock()
		if image := view.NextImage(job, logTime(view, now)); image != nil && overlay.Reason != "" {
			overlay.Detail = join(overlay.Detail, l.restores.sentence(l.sessions, view, job, image, now))
		} else if job.MayPullFirst() {
			l.pulls.tell(l.sessions, job, overlay, now)
		}
	}
}

// checkpointableOf is the word for whether a running job can be saved, and why
// not: the worst of its allocations.
func (l *Leader) checkpointableOf(job *state.Job) (word, reason string) {
	if why := job.NotSavable(); why != "" {
		return "NO", why
	}
	var worst session.Checkpointable
	for i := range job.Run.Allocs {
		node := job.Run.Allocs[i].Node
		s := l.sessions.Get(node)
		if s == nil {
			return "", ""
		}
		checkpointable := s.Checkpointable(session.Alloc{Job: job.ID, Epoch: job.Epoch})
		if checkpointable.Checkpointable == pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED {
			return "", ""
		}
		if checkpointable.Checkpointable > worst.Checkpointable {
			worst = checkpointable
			if job.IsGang() && checkpointable.Reason != "" {
				worst.Reason = "node " + node + ": " + checkpointable.Reason
			}
		}
	}
	return checkpointableWords[worst.Checkpointable], worst.Reason
}

// preparing is what the nodes of a job wait for that is not up yet: a container image that
// comes.
func (l *Leader) preparing(job *state.Job) string {
	if !job.Configuring() && !job.Stages() {
		return ""
	}
	text, told := "", 0
	for i := range job.Run.Allocs {
		node := job.Run.Allocs[i].Node
		s := l.sessions.Get(node)
		if s == nil || job.Run.Allocs[i].Released {
			continue
		}
		c := s.Checkpointable(session.Alloc{Job: job.ID, Epoch: job.Epoch})
		if c.Checkpointable != pb.Checkpointable_CHECKPOINTABLE_UNSPECIFIED || c.Reason == "" {
			continue
		}
		if told++; told > mostTold {
			return join(text, "and others")
		}
		if text = join(text, "node "+node+": "+c.Reason); !job.Stages() {
			return text
		}
	}
	return text
}

// mostTold is of how many nodes of a job it is told how far the copying of files is.
const mostTold = 8

var checkpointableWords = map[pb.Checkpointable]string{
	pb.Checkpointable_CHECKPOINTABLE_YES: "YES", pb.Checkpointable_CHECKPOINTABLE_LIKELY: "LIKELY",
	pb.Checkpointable_CHECKPOINTABLE_NOT_NOW: "NOT_NOW", pb.Checkpointable_CHECKPOINTABLE_NO: "NO",
}

func join(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// shortened bounds a sentence from a node, which is kept for each allocation.
func shortened(text string) string {
	const most = 1024
	for i := range text {
		if i > most {
			return text[:i]
		}
	}
	return text
}

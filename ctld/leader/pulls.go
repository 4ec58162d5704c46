package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	words "github.com/gleaner-hpc/gleaner/proto/spec"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/sched"
)

// A job on several nodes gets its container image before it gets the nodes: otherwise the
// slowest pull would keep the GPUs of all. A planned start of such a job is committed only
// once all of its nodes have said that the image is there. Until then the job has
// nothing, and does not start: other jobs may have the nodes. What came stays in the
// caches, so each such wait leaves fewer nodes to wait for, and the last one ends.
//
// A node to which the image does not come is avoided, if it came to others. If it came to none,
// the image is at fault, and the job starts: a node says then why not, and it fails.
const (
	maxPullsOpen = 64               // in the whole cluster: one registry may serve them all
	pullLimit    = 30 * time.Minute // for one node; after that it counts as one that cannot
	pullSilence  = time.Minute      // without a word of a node, which says every few seconds how far it is
	pulledLasts  = 10 * time.Minute // the cache may have made room since
	pullErrLasts = 10 * time.Minute // what was in the way may be gone
	pullAhead    = 10 * time.Minute // before a planned start
)

// pullAgain is how long it takes until a node is asked again that pulls others. A variable for
// tests.
var pullAgain = 5 * time.Second

// pulls is what nodes have said of the container images of waiting jobs. It is soft state, as
// restores are.
type pulls struct {
	mu    sync.Mutex
	known map[pullKey]*pull
	waits map[uint32]*pullWait // by job
	open  int
}

// pullKey is an image that comes to a node: what came for one user is not there for another.
type pullKey struct {
	uid         uint32
	image, node string
}

// pull is one that is under way, or its outcome.
type pull struct {
	session  *session.Session
	stop     context.CancelFunc // nil = it is over
	at       time.Time          // when it ended
	progress string
	problem  string // why it did not come
}

// pullWait is a job that waits for its image.
type pullWait struct {
	uid   uint32
	image string
	nodes []string // ascending
	early bool     // it waits for its nodes too: see pullAhead
}

func newPulls() *pulls {
	p := &pulls{}
	p.forget()
	return p
}

// forget forgets all, and stops what is under way.
func (p *pulls) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.known {
		one.cancel()
	}
	p.known, p.waits = map[pullKey]*pull{}, map[uint32]*pullWait{}
}

func (one *pull) cancel() {
	if one.stop != nil {
		one.stop()
	}
}

// pullState is what is known of an image on a node.
type pullState uint8

const (
	pullUnknown pullState = iota
	pullComes
	pullHere
	pullFailed
)

// state is what is known of an image on a node. The caller holds p.mu.
func (p *pulls) state(sessions *session.Registry, key pullKey, now time.Time) pullState {
	s, one := sessions.Get(key.node), p.known[key]
	switch {
	case s == nil:
		return pullFailed
	case one == nil || one.session != s:
		return pullUnknown
	case one.stop != nil:
		return pullComes
	case one.problem == "" && now.Sub(one.at) < pulledLasts:
		return pullHere
	case one.problem != "" && now.Sub(one.at) < pullErrLasts:
		return pullFailed
	}
	return pullUnknown
}

// failed are the nodes to which an image does not come though it came to others, ascending,
// with why. The caller holds p.mu.
func (p *pulls) failed(sessions *session.Registry, uid uint32, image string, now time.Time) (nodes, why []string) {
	came := false
	for key, one := range p.known {
		if key.uid != uid || key.image != image {
			continue
		}
		switch p.state(sessions, key, now) {
		case pullHere:
			came = true
		case pullFailed:
			if one.problem != "" {
				nodes = append(nodes, key.node)
			}
		}
	}
	if !came {
		return nil, nil
	}
	slices.Sort(nodes)
	for _, node := range nodes {
		why = append(why, node+": "+p.known[pullKey{uid, image, node}].problem)
	}
	return nodes, why
}

// of reports whether a waiting job waits for its image, and the nodes to which that does not
// come.
func (p *pulls) of(sessions *session.Registry, job *state.Job, now time.Time) (waits bool, without []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) == 0 {
		return false, nil
	}
	wait := p.waits[job.ID]
	without, _ = p.failed(sessions, job.Owner().UID, job.ContainerImage(), now)
	return wait != nil && !wait.early, without
}

// pullFirst answers which of some planned starts may be committed, and has the container
// images of the others come to their nodes; pulling is whether some do.
func (l *Leader) pullFirst(ctx context.Context, view *state.View, starts []state.StartOrder) (now []state.StartOrder, pulling bool) {
	clock := l.clock()
	for i := range starts {
		job, known := view.Job(starts[i].Job)
		if !known || !job.MayPullFirst() || len(starts[i].Allocs) < 2 || starts[i].Image != 0 {
			now = append(now, starts[i])
			continue
		}
		var nodes []string
		for _, alloc := range starts[i].Allocs {
			nodes = append(nodes, alloc.Node)
		}
		switch l.pulls.want(l.sessions, job, nodes, false, clock) {
		case pullHere:
			now = append(now, starts[i])
		case pullUnknown, pullComes:
			pulling = true
		}
	}
	if pulling {
		l.pullOn(ctx, view)
		wake(l.freedWake) // others may have the nodes
	}
	return now, pulling
}

// pullEarly has images come to the nodes on which jobs are planned to start soon.
func (l *Leader) pullEarly(ctx context.Context, view *state.View, snapshot *sched.Snapshot, promises *sched.Promises) {
	clock, wanted := l.clock(), false
	for i := range promises.Planned {
		planned := &promises.Planned[i]
		allocs := planned.Placement.Allocs
		job, known := view.Job(uint32(planned.Job))
		if !known || !job.MayPullFirst() || len(allocs) < 2 || len(job.Images()) > 0 || planned.StartMS > snapshot.NowMS+pullAhead.Milliseconds() {
			continue
		}
		var nodes []string
		for j := range allocs {
			nodes = append(nodes, snapshot.Nodes[allocs[j].Node].Name)
		}
		wanted = l.pulls.want(l.sessions, job, nodes, true, clock) != pullHere || wanted
	}
	if wanted {
		l.pullOn(ctx, view)
	}
}

// want notes that a job is planned on nodes, and answers what is known of its image on all of
// them: pullHere, also if it is not for the nodes that it does not come; pullFailed if it comes
// to some and never to others.
func (p *pulls) want(sessions *session.Registry, job *state.Job, nodes []string, early bool, now time.Time) pullState {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid, image := job.Owner().UID, job.ContainerImage()
	var missing []string
	failed := 0
	for _, node := range nodes {
		switch p.state(sessions, pullKey{uid, image, node}, now) {
		case pullUnknown, pullComes:
			missing = append(missing, node)
		case pullFailed:
			failed++
		}
	}
	avoided, _ := p.failed(sessions, uid, image, now)
	switch {
	case len(missing) > 0:
		slices.Sort(missing)
		if before := p.waits[job.ID]; before != nil && !early && !before.early { // another task of its array
			missing = slices.Compact(slices.Sorted(slices.Values(append(missing, before.nodes...))))
		}
		p.waits[job.ID] = &pullWait{uid: uid, image: image, nodes: missing, early: early}
		return pullUnknown
	case failed > 0 && len(avoided) > 0:
		return pullFailed // the next plan avoids these nodes
	}
	return pullHere
}

// pullOn begins the pulls that jobs wait for, as far as there may be more, and ends those for
// which none does.
func (l *Leader) pullOn(ctx context.Context, view *state.View) {
	now := l.clock()
	l.pulls.mu.Lock()
	defer l.pulls.mu.Unlock()
	needed := map[pullKey]bool{}
	for _, id := range slices.Sorted(maps.Keys(l.pulls.waits)) {
		wait := l.pulls.waits[id]
		job, known := view.Job(id)
		over := !known || job.Phase != state.Waiting || job.Held != sched.NotHeld || job.ContainerImage() != wait.image
		settled := true
		for _, node := range wait.nodes {
			key := pullKey{wait.uid, wait.image, node}
			is := l.pulls.state(l.sessions, key, now)
			if over || is == pullHere || is == pullFailed {
				continue
			}
			settled, needed[key] = false, true
			if is == pullUnknown && l.pulls.open < maxPullsOpen {
				l.beginPull(ctx, key, view.PullFirst(job, node))
			}
		}
		if settled {
			delete(l.pulls.waits, id)
		}
	}
	for key, one := range l.pulls.known {
		switch {
		case one.stop != nil && !needed[key]:
			one.stop()
		case one.stop == nil && now.Sub(one.at) >= max(pulledLasts, pullErrLasts):
			delete(l.pulls.known, key)
		}
	}
}

// beginPull has an image come to a node. The caller holds l.pulls.mu.
func (l *Leader) beginPull(ctx context.Context, key pullKey, order *pb.TendImages) {
	s := l.sessions.Get(key.node)
	if s == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, pullLimit)
	one := &pull{session: s, stop: stop}
	l.pulls.known[key] = one
	l.pulls.open++
	l.hooks.Go(func() {
		defer stop()
		err := l.pull(ctx, key.node, order, func(progress string) {
			l.pulls.mu.Lock()
			defer l.pulls.mu.Unlock()
			one.progress = shortened(progress)
		})
		l.pulls.mu.Lock()
		defer l.pulls.mu.Unlock()
		l.pulls.open--
		one.stop, one.at = nil, l.clock()
		switch {
		case err == nil:
			l.log.Info("a container image is where a job needs it", "node", key.node, "image", key.image)
		case errors.Is(ctx.Err(), context.Canceled): // nobody waits for it
			if l.pulls.known[key] == one {
				delete(l.pulls.known, key)
			}
		default:
			one.problem = shortened(err.Error())
			l.log.Warn("a container image did not come to a node; its job avoids that if it comes to others", "node", key.node, "image", key.image, "error", err)
		}
		wake(l.freedWake)
	})
}

// pull has a node bring an image, and waits for it.
func (l *Leader) pull(ctx context.Context, node string, order *pb.TendImages, progress func(string)) error {
	for {
		var outcome *pb.ImagesWord
		asking, stop := context.WithCancel(ctx)
		silent := time.AfterFunc(pullSilence, stop)
		// Tend numbers what it sends, which may still be on its way when it is asked again.
		err := l.sessions.Tend(asking, node, proto.CloneOf(order), func(word *pb.ImagesWord) error {
			silent.Reset(pullSilence)
			if word.GetDone() {
				outcome = word
			} else if word.GetProgress() != "" {
				progress(word.GetProgress())
			}
			return nil
		})
		silent.Stop()
		stop()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("it did not come within %v", pullLimit)
		case outcome == nil && asking.Err() != nil && err != nil && errors.Is(err, context.Canceled):
			return fmt.Errorf("the node said nothing of it for %v", pullSilence)
		case err != nil && !errors.Is(err, session.ErrBusy):
			return err
		case err == nil && outcome.GetError() == "":
			return nil
		case err == nil && !outcome.GetBusy():
			return errors.New(outcome.GetError())
		}
		progress("the node pulls other images first")
		if !pause(ctx, pullAgain) {
			return fmt.Errorf("it did not come within %v", pullLimit)
		}
	}
}

// tell says of a waiting job where its image comes, how far that is, and where it does not.
func (p *pulls) tell(sessions *session.Registry, job *state.Job, overlay *state.Overlay, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) == 0 {
		return
	}
	_, why := p.failed(sessions, job.Owner().UID, job.ContainerImage(), now)
	if wait := p.waits[job.ID]; wait != nil {
		text := wait.progress(p, sessions, now)
		if wait.early {
			overlay.Detail = join(overlay.Detail, text)
		} else {
			overlay.Reason, overlay.Detail, overlay.NamesOthers = sched.ReasonImagePull.String(), text, false
		}
	}
	if len(why) > 0 {
		overlay.Detail = join(overlay.Detail, "avoids nodes to which its container image does not come: "+few(why))
	}
}

// progress says how far a wait is. The caller holds p.mu.
func (w *pullWait) progress(p *pulls, sessions *session.Registry, now time.Time) string {
	var coming, said []string
	for _, node := range w.nodes {
		key := pullKey{w.uid, w.image, node}
		if is := p.state(sessions, key, now); is == pullHere || is == pullFailed {
			continue
		}
		coming = append(coming, node)
		if one := p.known[key]; one != nil && one.progress != "" {
			said = append(said, node+": "+one.progress)
		}
	}
	return join("its container image comes to "+words.FormatHostList(coming)+" first", few(said))
}

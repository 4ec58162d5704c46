package leader

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// Bounds of asking nodes whether they can restore an image.
const (
	maxAsksOpen   = 64               // unanswered at a time: a node reads files to answer
	askLimit      = 30 * time.Second // after which an answer is not waited for
	answerLasts   = 10 * time.Minute // a file may have changed since
	noAnswerLasts = 2 * time.Minute  // what was in the way may be gone
	awayLasts     = 15 * time.Second // the store was only away, or its key or credentials are mended
	openPatience  = 2 * time.Minute  // for which nodes that have not answered keep a job from one where it has failed
)

// propertyImage is what a node names as the property at fault when the image
// itself is lost or damaged where it should be.
const propertyImage = "image"

// propertyStore is what a node names when it cannot look at the image: of the image, and of
// the node, that says nothing.
const propertyStore = "store"

// restores are the answers of nodes, for the images of waiting jobs: soft state
// that counts for the session in which a node gave it, and that the next leader
// asks for again.
type restores struct {
	mu     sync.Mutex
	asks   map[restoreKey]*restoreAsk
	tokens map[string]restoreKey // of those that are open
}

type restoreKey struct {
	digest state.Digest
	node   string
}

type restoreAsk struct {
	session          *session.Session
	at               time.Time // asked, or answered
	token            string    // "" = it is answered
	can              bool
	property, reason string
}

func newRestores() *restores {
	r := &restores{}
	r.forget()
	return r
}

// forget forgets all answers.
func (r *restores) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asks, r.tokens = make(map[restoreKey]*restoreAsk), make(map[string]restoreKey)
}

// askRestores asks the nodes that could resume waiting jobs whether they can,
// and has lost images forgotten.
func (l *Leader) askRestores(ctx context.Context, view *state.View, now time.Time) {
	needed, about := make(map[restoreKey]bool), make(map[state.Digest]bool)
	var drops []state.ImageDrop
	var gone []state.ImagePlace
	for job := range view.WithImages {
		image := view.NextImage(job, logTime(view, now))
		if image == nil {
			continue
		}
		for _, q := range l.restores.questions(l.sessions, view, job, image, l.clock()) {
			digest := image.Allocs[q.alloc].Digest
			needed[restoreKey{digest, q.node}], about[digest] = true, true
			l.restores.ask(l.sessions.Get(q.node), view, job, image, q.alloc, l.clock())
		}
		if places := l.restores.gonePlaces(l.sessions, job.ID, image); len(gone)+len(places) <= bounds.MaxReports {
			gone = append(gone, places...)
		}
		if why := l.restores.gone(l.sessions, image); why != "" && len(drops) < bounds.MaxTargets {
			drops = append(drops, state.ImageDrop{Job: job.ID, Epoch: job.Epoch, Numbers: []uint32{image.Number}, Reason: why})
		}
	}
	failed := l.askMoves(view, needed, now)
	l.restores.keep(needed, about, l.clock())
	if len(failed) > 0 {
		if _, ok := l.propose(ctx, state.FailMoves{Moves: failed}); ok {
			l.log.Warn("jobs cannot continue where they were to move; gcontrol show job says what becomes of them", "count", len(failed), "first_job", failed[0].Job, "node", failed[0].Node, "reason", failed[0].Reason)
		}
	}
	if len(gone) > 0 {
		if _, ok := l.propose(ctx, state.NoteImagePlaces{Places: gone}); ok {
			l.log.Warn("nodes no longer have images that they should have; others still do", "count", len(gone), "first_job", gone[0].Job, "node", gone[0].Node)
		}
	}
	if len(drops) == 0 {
		return
	}
	if _, ok := l.propose(ctx, state.DropImages{Drops: drops}); ok {
		l.log.Warn("images of jobs are gone; see why, and whether their nodes lose files", "count", len(drops), "first_job", drops[0].Job, "reason", drops[0].Reason)
	}
}

// logTime is the time that a command proposed now gets in the log.
func logTime(view *state.View, now time.Time) int64 { return max(view.TimeMS(), now.UnixMilli()) }

// question is about one part of an image, to a node.
type question struct {
	alloc int
	node  string
}

// questions are those to be asked about the parts of an image: nodes that could
// resume from one, and nodes that should have it.
func (r *restores) questions(sessions *session.Registry, view *state.View, job *state.Job, image *state.Image, now time.Time) []question {
	var all []question
	add := func(q question) {
		if !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	for _, set := range slices.Concat(view.RestoreSets(job, image, r.refuses(sessions, image, now))) {
		for alloc, node := range set {
			add(question{alloc, node})
		}
	}
	for alloc := range image.Allocs {
		part := &image.Allocs[alloc]
		add(question{alloc, part.Node})
		for _, node := range part.Holders() {
			add(question{alloc, node})
		}
	}
	return all
}

// ask asks one node about one part of an image, unless it has answered or is
// about to.
func (r *restores) ask(s *session.Session, view *state.View, job *state.Job, image *state.Image, alloc int, now time.Time) {
	if s == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := restoreKey{image.Allocs[alloc].Digest, s.Node()}
	if before := r.asks[key]; before != nil && before.session == s && before.fresh(now) {
		return
	}
	if len(r.tokens) >= maxAsksOpen {
		r.dropLate(now)
		if len(r.tokens) >= maxAsksOpen {
			return
		}
	}
	ask := &restoreAsk{session: s, at: now, token: uuid.NewString()}
	if before := r.asks[key]; before != nil {
		delete(r.tokens, before.token)
		if before.session == s && before.token == "" { // its last answer counts until the next
			ask.can, ask.property, ask.reason = before.can, before.property, before.reason
		}
	}
	r.asks[key], r.tokens[ask.token] = ask, key
	models := make([]string, image.Allocs[alloc].GPUs)
	for i := range models {
		models[i] = image.Model
	}
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{
		AskRestore: &pb.AskRestore{Token: ask.token, Image: image.Message(job.ID, alloc), DeviceModels: models, Start: view.StartLike(job, image, alloc, s.Node())}}})
}

// fresh reports whether there is no need to ask again.
func (a *restoreAsk) fresh(now time.Time) bool {
	switch age := now.Sub(a.at); {
	case a.token != "":
		return age < askLimit
	case a.can:
		return age < answerLasts
	case a.property == propertyStore:
		return age < awayLasts
	default:
		return age < noAnswerLasts
	}
}

// refuses reports whether the node has answered that it cannot.
func (a *restoreAsk) refuses() bool { return a.token == "" && !a.can }

// refuses answers, for the parts of an image, whether a node has said lately that it
// cannot resume one.
func (r *restores) refuses(sessions *session.Registry, image *state.Image, now time.Time) func(part int, node string) bool {
	return func(part int, node string) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		ask := r.asks[restoreKey{image.Allocs[part].Digest, node}]
		return ask != nil && ask.refuses() && ask.fresh(now) && ask.session == sessions.Get(node)
	}
}

// dropLate gives up on answers that are overdue.
func (r *restores) dropLate(now time.Time) {
	for token, key := range r.tokens {
		if ask := r.asks[key]; ask == nil || ask.token != token || !ask.fresh(now) {
			delete(r.tokens, token)
		}
	}
}

// Restores records a node's answer.
func (l *Leader) Restores(s *session.Session, answer *pb.RestoreAnswer) {
	if l.restores.answer(s, answer, l.clock()) {
		wake(l.freedWake)
		wake(l.asksWake)
		l.dirty.add(s.Node()) // the successor of a job that moves may wait for it
		wake(l.dispatchWake)
	}
}

// answer records an answer, and reports whether it was asked for.
func (r *restores) answer(s *session.Session, answer *pb.RestoreAnswer, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, asked := r.tokens[answer.GetToken()]
	ask := r.asks[key]
	if !asked || ask == nil || ask.session != s || ask.token != answer.GetToken() {
		return false
	}
	delete(r.tokens, ask.token)
	ask.token, ask.at, ask.can = "", now, answer.GetCan()
	ask.property, ask.reason = shortened(answer.GetProperty()), shortened(answer.GetReason())
	return true
}

// keep forgets what is no longer needed. What a node has refused is needed as long as
// that lasts: other nodes are chosen by it.
func (r *restores) keep(needed map[restoreKey]bool, about map[state.Digest]bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, ask := range r.asks {
		if !needed[key] && !(about[key.digest] && ask.refuses() && ask.fresh(now)) {
			delete(r.tokens, ask.token)
			delete(r.asks, key)
		}
	}
}

// nodes are those on which a waiting job may resume from an image now,
// ascending by name; for a job on several nodes as many as it had, or none.
func (r *restores) nodes(sessions *session.Registry, view *state.View, job *state.Job, image *state.Image, now time.Time) []string {
	sets := r.sets(sessions, view, job, image, now)
	if len(sets) > 1 && len(sets[0]) > 1 {
		sets = sets[:1]
	}
	return slices.Concat(sets...)
}

// sets are the sets of nodes in which each node can resume its allocation.
func (r *restores) sets(sessions *session.Registry, view *state.View, job *state.Job, image *state.Image, now time.Time) [][]string {
	if missing(sessions, image) != "" {
		return nil
	}
	sets, failed := view.RestoreSets(job, image, r.refuses(sessions, image, now))
	r.mu.Lock()
	defer r.mu.Unlock()
	can, open := r.said(sessions, image, sets)
	if len(can) == 0 && (len(open) == 0 || now.UnixMilli() >= job.Saved.WaitsMS+openPatience.Milliseconds()) {
		can, open = r.said(sessions, image, failed)
	}
	return job.Wish(can, open, now.UnixMilli())
}

// said splits sets of nodes into those that can resume from an image and those
// that have not said so yet. The caller holds r.mu.
func (r *restores) said(sessions *session.Registry, image *state.Image, sets [][]string) (can, open [][]string) {
	for _, set := range sets {
		switch r.word(sessions, image, set) {
		case saysYes:
			can = append(can, set)
		case saysNothing:
			open = append(open, set)
		}
	}
	return can, open
}

// verdict is what nodes say together: no if one does, and nothing while one has
// not answered.
type verdict uint8

const (
	saysYes verdict = iota
	saysNothing
	saysNo
)

// word is the verdict of a set of nodes on an image. The caller holds r.mu.
func (r *restores) word(sessions *session.Registry, image *state.Image, set []string) verdict {
	all := saysYes
	for alloc, node := range set {
		s := sessions.Get(node)
		ask := r.asks[restoreKey{image.Allocs[alloc].Digest, node}]
		one := saysNo
		switch {
		case s == nil:
		case ask == nil || ask.session != s || ask.token != "" && !ask.can && ask.property == "":
			one = saysNothing
		case ask.can:
			one = saysYes
		}
		all = max(all, one)
	}
	return all
}

// missing is a node that has a part of an image and is not connected; "" when
// each part is in a store that several nodes reach, or a node that has it is
// connected.
func missing(sessions *session.Registry, image *state.Image) string {
	for i := range image.Allocs {
		alloc := &image.Allocs[i]
		connected := func(name string) bool { return sessions.Get(name) != nil }
		if alloc.Store == "" && !slices.ContainsFunc(alloc.Holders(), connected) {
			return alloc.Holders()[0]
		}
	}
	return ""
}

// gone says why an image is lost for good, as all nodes say that should have a
// part of it; "" when one does not.
func (r *restores) gone(sessions *session.Registry, image *state.Image) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range image.Allocs {
		alloc := &image.Allocs[i]
		holders := alloc.Holders()
		if alloc.Store != "" {
			holders = []string{alloc.Node}
		}
		why := ""
		for _, node := range holders {
			said := r.saysGone(sessions, alloc.Digest, node)
			if said == "" {
				why = ""
				break
			}
			why = fmt.Sprintf("node %s says: %s", node, said)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

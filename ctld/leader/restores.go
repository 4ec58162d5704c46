package leader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	words "github.com/gleaner-hpc/gleaner/proto/spec"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// Bounds of asking nodes whether they can restore an image.
const (
	maxAsksOpen   = 64               // unanswered at a time: a node reads files to answer
	askLimit      = 30 * time.Second // after which an answer is not waited for
	answerLasts   = 10 * time.Minute // a file may have changed since
	noAnswerLasts = 2 * time.Minute  // what was in the way may be gone
	openPatience  = 2 * time.Minute  // for which nodes that have not answered keep a job from one where it has failed
)

// propertyImage is what a node names as the property at fault when the image
// itself is gone or damaged where it should be.
const propertyImage = "image"

// restores are the answers of nodes, for the images of waiting jobs: soft state
// that counts for the session in which a node gave it, and is asked for again by
// the next leader.
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

// askRestores asks the nodes that could go on with waiting jobs whether they can,
// and has images forgotten that are gone.
func (l *Leader) askRestores(ctx context.Context, view *state.View, now time.Time) {
	needed := make(map[restoreKey]bool)
	var drops []state.ImageDrop
	for job := range view.WithImages {
		image := job.NextImage()
		if image == nil {
			continue
		}
		for _, about := range asked(view, job, image) {
			needed[restoreKey{image.Parts[about.part].Digest, about.node}] = true
			l.restores.ask(l.sessions.Get(about.node), job.ID, image, about.part, l.clock())
		}
		if drop, is := l.drop(view, job, image, now); is && len(drops) < state.MaxTargets {
			drops = append(drops, drop)
		}
	}
	l.restores.keep(needed)
	if len(drops) == 0 {
		return
	}
	if _, ok := l.propose(ctx, state.DropImages{Drops: drops}); ok {
		l.log.Warn("images of jobs are not used any more; see why, and whether their nodes lose files", "count", len(drops), "first_job", drops[0].Job, "reason", drops[0].Reason)
	}
}

// question is about one part of an image, to a node.
type question struct {
	part int
	node string
}

// asked are the nodes to be asked about the parts of an image: those that could go
// on with one, and the one that should have it.
func asked(view *state.View, job *state.Job, image *state.Image) []question {
	var all []question
	add := func(q question) {
		if !slices.Contains(all, q) {
			all = append(all, q)
		}
	}
	for _, set := range slices.Concat(view.RestoreSets(job)) {
		for part, node := range set {
			add(question{part, node})
		}
	}
	for part, node := range image.Nodes() {
		add(question{part, node})
	}
	return all
}

// ask asks one node about one part of an image, unless it has answered or is about
// to.
func (r *restores) ask(s *session.Session, job uint32, image *state.Image, part int, now time.Time) {
	if s == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := restoreKey{image.Parts[part].Digest, s.Node()}
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
		if before.session == s && before.token == "" { // its last word counts until it has another
			ask.can, ask.property, ask.reason = before.can, before.property, before.reason
		}
	}
	r.asks[key], r.tokens[ask.token] = ask, key
	models := make([]string, image.Parts[part].GPUs)
	for i := range models {
		models[i] = image.Model
	}
	s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_AskRestore{
		AskRestore: &pb.AskRestore{Token: ask.token, Image: image.Message(job, part), DeviceModels: models}}})
}

// fresh says whether there is no need to ask again.
func (a *restoreAsk) fresh(now time.Time) bool {
	switch age := now.Sub(a.at); {
	case a.token != "":
		return age < askLimit
	case a.can:
		return age < answerLasts
	default:
		return age < noAnswerLasts
	}
}

// dropLate gives up answers that are waited for too long.
func (r *restores) dropLate(now time.Time) {
	for token, key := range r.tokens {
		if ask := r.asks[key]; ask == nil || ask.token != token || !ask.fresh(now) {
			delete(r.tokens, token)
		}
	}
}

// Restores takes in a node's answer.
func (l *Leader) Restores(s *session.Session, answer *pb.RestoreAnswer) {
	if l.restores.answer(s, answer, l.clock()) {
		wake(l.freedWake)
		wake(l.asksWake)
	}
}

// answer answers whether it was asked for.
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

// keep forgets what is not needed any more.
func (r *restores) keep(needed map[restoreKey]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, ask := range r.asks {
		if !needed[key] {
			delete(r.tokens, ask.token)
			delete(r.asks, key)
		}
	}
}

// nodes are those on which a waiting job may go on now, ascending by name; of a job
// on several nodes as many as it had, or none.
func (r *restores) nodes(sessions *session.Registry, view *state.View, job *state.Job, now time.Time) []string {
	sets := r.sets(sessions, view, job, now)
	if len(sets) > 1 && len(sets[0]) > 1 {
		sets = sets[:1]
	}
	return slices.Concat(sets...)
}

// sets are the sets of nodes of which each can go on with its part.
func (r *restores) sets(sessions *session.Registry, view *state.View, job *state.Job, now time.Time) [][]string {
	image := job.NextImage()
	if image == nil || !within(sessions, image) {
		return nil
	}
	sets, failed := view.RestoreSets(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	can, open := r.said(sessions, image, sets)
	if len(can) == 0 && (len(open) == 0 || now.UnixMilli() >= job.Saved.WaitsMS+openPatience.Milliseconds()) {
		can, open = r.said(sessions, image, failed)
	}
	return job.Wish(can, open, now.UnixMilli())
}

// said are, of some sets of nodes, those that can go on with an image and those
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
	for part, node := range set {
		s := sessions.Get(node)
		ask := r.asks[restoreKey{image.Parts[part].Digest, node}]
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

// within says whether an image can be got.
func within(sessions *session.Registry, image *state.Image) bool {
	return missing(sessions, image) == ""
}

// missing is a node that has a part of an image and is not connected; "" when each
// part lies in a store that several nodes reach, or its node is there.
func missing(sessions *session.Registry, image *state.Image) string {
	for i := range image.Parts {
		if part := &image.Parts[i]; part.Store == "" && sessions.Get(part.Node) == nil {
			return part.Node
		}
	}
	return ""
}

// gone says why an image is gone for good: a node that has to have a part of it says
// so; "" when none does.
func (r *restores) gone(sessions *session.Registry, image *state.Image) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range image.Parts {
		part := &image.Parts[i]
		holder := r.asks[restoreKey{part.Digest, part.Node}]
		if holder != nil && holder.token == "" && !holder.can && holder.property == propertyImage && holder.session == sessions.Get(part.Node) {
			return fmt.Sprintf("node %s says: %s", part.Node, holder.reason)
		}
	}
	return ""
}

// drop says whether an image is to be forgotten: the node that has to have it has
// not, or the job has waited long enough.
func (l *Leader) drop(view *state.View, job *state.Job, image *state.Image, now time.Time) (state.ImageDrop, bool) {
	drop := state.ImageDrop{Job: job.ID, Epoch: job.Epoch}
	if drop.Reason = l.restores.gone(l.sessions, image); drop.Reason != "" {
		drop.Numbers = []uint32{image.Number}
		return drop, true
	}
	waited := now.UnixMilli() >= job.Saved.WaitsMS+state.ImageWaitMS && job.Held == 0
	if !waited || !job.Spec.Requeue || len(l.restores.nodes(l.sessions, view, job, now)) > 0 {
		return drop, false
	}
	drop.Reason = fmt.Sprintf("for %d minutes no node could go on with image %d; %s", state.ImageWaitMS/60_000, image.Number, l.restores.why(l.sessions, view, job))
	return drop, true
}

// sentence says where a job that waits can go on, or why nowhere, and what becomes
// of it.
func (r *restores) sentence(sessions *session.Registry, view *state.View, job *state.Job, now time.Time) string {
	image := job.NextImage()
	nodes := r.nodes(sessions, view, job, now)
	if len(nodes) > 0 {
		return fmt.Sprintf("goes on from image %d on %s", image.Number, few(nodes))
	}
	until := ""
	if job.Spec.Requeue {
		until = "; starts over at " + time.UnixMilli(job.Saved.WaitsMS+state.ImageWaitMS).UTC().Format(time.RFC3339) + " if that stays so, or at once with gcontrol requeue"
	}
	return r.why(sessions, view, job) + until
}

// why says why no node can go on with the image of a job, as far as nodes said.
func (r *restores) why(sessions *session.Registry, view *state.View, job *state.Job) string {
	image := job.NextImage()
	if node := missing(sessions, image); node != "" {
		return fmt.Sprintf("image %d lies on node %s, which is not connected", image.Number, node)
	}
	sets := slices.Concat(view.RestoreSets(job))
	switch {
	case len(sets) == 0 && len(image.Parts) > 1:
		return fmt.Sprintf("it goes on on its own nodes, %s, whose names its processes know, and not all of them are up with what they had", words.FormatHostList(image.Nodes()))
	case len(sets) == 0:
		return fmt.Sprintf("no node is up that has what it had when image %d was made", image.Number)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var said []string
	for _, set := range sets {
		for part, node := range set {
			ask := r.asks[restoreKey{image.Parts[part].Digest, node}]
			switch {
			case sessions.Get(node) == nil:
				said = append(said, node+": is not connected")
			case ask == nil || ask.token != "" && ask.property == "":
				said = append(said, node+": has not answered yet")
			case !ask.can:
				said = append(said, node+": "+strings.TrimSuffix(ask.reason, "."))
			}
		}
	}
	return few(said)
}

// few joins some of what there may be much of.
func few(texts []string) string {
	const most = 4
	if len(texts) <= most {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), len(texts)-most)
}

package leader

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"

	"github.com/gleaner-hpc/gleaner/ctld/session"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// This file has images brought off the nodes that made them: where no shared store
// is, the image of a guest is lost, or out of reach, with the node of its owner. A
// second node is told to fetch it. What is under way is soft state: the next leader
// tells a node again, and one that has the image says so at once.

// Bounds of copies.
const (
	maxFetches   = 32               // under way at a time, of all nodes
	fetchPerNode = 2                // to one node, and from one
	fetchAgain   = 10 * time.Minute // until a node that could not is told again
	fetchLimit   = (state.SaveTimeoutS + 60) * time.Second
)

// copies are the copies that are under way, and the nodes that failed lately.
type copies struct {
	mu      sync.Mutex
	fetches map[restoreKey]*imageFetch
}

type imageFetch struct {
	session *session.Session // that was told
	from    string           // the node that made the image
	at      time.Time        // told, or failed
	failed  string           // why; "" = it is under way
}

func newCopies() *copies { return &copies{fetches: map[restoreKey]*imageFetch{}} }

// forget forgets all of it.
func (c *copies) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.fetches)
}

// copyImages tells nodes to fetch what would be lost with another node.
func (l *Leader) copyImages(view *state.View) {
	now := l.clock()
	l.copies.expire(l.sessions, now)
	for job := range view.WithImages {
		image, parts := view.PartsAtRisk(job)
		for _, n := range parts {
			if target := l.copyTarget(view, job, image, n); target != nil {
				l.log.Info("an image is copied to a second node", "job", job.ID, "image", image.Number, "from", image.Allocs[n].Node, "to", target.Node())
				l.copies.tell(target, image.Message(job.ID, n), now)
			}
		}
	}
}

// expire forgets what is over: a node that is gone is told again when it is back, or
// another is.
func (c *copies) expire(sessions *session.Registry, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, f := range c.fetches {
		switch {
		case f.failed != "" && now.Sub(f.at) < fetchAgain:
		case f.failed == "" && f.session == sessions.Get(key.node) && now.Sub(f.at) < fetchLimit:
		default:
			delete(c.fetches, key)
		}
	}
}

// copyTarget is the node that is told to fetch a part of an image now; nil = none, or
// one fetches it already. A node that could resume the job goes before one that only
// has room, and one that stays before one that others own.
func (l *Leader) copyTarget(view *state.View, job *state.Job, image *state.Image, part int) *session.Session {
	alloc := &image.Allocs[part]
	if !slices.ContainsFunc(alloc.Holders(), func(name string) bool { return l.sessions.Get(name) != nil }) {
		return nil
	}
	var best *session.Session
	var bestRank uint64
	l.copies.mu.Lock()
	defer l.copies.mu.Unlock()
	if !l.copies.room(alloc) {
		return nil
	}
	for _, s := range l.sessions.All() {
		if !view.MayKeepCopy(job, alloc, s.Node()) || !l.copies.mayTell(alloc.Digest, s.Node()) {
			continue
		}
		could, stays := view.CouldResume(job, alloc, image, s.Node())
		rank := spread(alloc.Digest, s.Node())
		if could {
			rank |= 1 << 62
		}
		if stays {
			rank |= 1 << 61
		}
		if best == nil || rank > bestRank {
			best, bestRank = s, rank
		}
	}
	return best
}

// spread is a number by which images are spread over nodes.
func spread(digest state.Digest, node string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write(digest[:])
	_, _ = sum.Write([]byte(node))
	return sum.Sum64() >> 3
}

// room reports whether a part may be fetched now: nobody does, and not too many others
// are fetched, in all and from its node. The caller holds c.mu.
func (c *copies) room(part *state.ImageAlloc) bool {
	all, from := 0, 0
	for key, f := range c.fetches {
		if f.failed != "" {
			continue
		}
		if key.digest == part.Digest {
			return false
		}
		all++
		if f.from == part.Node {
			from++
		}
	}
	return all < maxFetches && from < fetchPerNode
}

// mayTell reports whether a node has not failed lately, and does not fetch too much
// already. The caller holds c.mu.
func (c *copies) mayTell(digest state.Digest, node string) bool {
	to := 0
	for key, f := range c.fetches {
		if key.node != node {
			continue
		}
		if key.digest == digest {
			return false
		}
		if f.failed == "" {
			to++
		}
	}
	return to < fetchPerNode
}

func (c *copies) tell(s *session.Session, image *pb.Image, now time.Time) {
	c.mu.Lock()
	c.fetches[restoreKey{state.Digest(image.GetDigest()), s.Node()}] = &imageFetch{session: s, from: image.GetNode(), at: now}
	c.mu.Unlock()
	s.Fetch(&pb.FetchImage{Image: image, TimeoutS: state.SaveTimeoutS})
}

// Fetched records that a node has fetched an image that it was told to, or not. It
// waits for room, not for the commit.
func (l *Leader) Fetched(ctx context.Context, s *session.Session, fetched *pb.ImageFetched) error {
	image := s.Fetched(fetched.GetImage())
	if image == nil {
		return nil // it was not told to, or not in this session
	}
	key := restoreKey{state.Digest(image.GetDigest()), s.Node()}
	l.copies.mu.Lock()
	f := l.copies.fetches[key]
	mine := f != nil && f.session == s && f.failed == ""
	if mine && fetched.GetError() != "" {
		f.failed, f.at = cmp.Or(shortened(fetched.GetError()), "?"), l.clock()
	}
	l.copies.mu.Unlock()
	switch {
	case !mine:
		return nil
	case fetched.GetError() != "":
		l.log.Warn("an image could not be copied to a second node, and another is tried: see whether that node has room for images", "job", image.GetAlloc().GetJob(), "image", image.GetNumber(), "node", s.Node(), "error", shortened(fetched.GetError()))
		wake(l.asksWake)
		return nil
	}
	return l.take(ctx, report{session: s, alloc: session.AllocOf(image.GetAlloc()), fetched: image})
}

// noteFetched forgets a copy that is recorded.
func (l *Leader) noteFetched(r report) {
	l.copies.mu.Lock()
	delete(l.copies.fetches, restoreKey{state.Digest(r.fetched.GetDigest()), r.session.Node()})
	l.copies.mu.Unlock()
	wake(l.asksWake)
}

// placeOf is the record of a copy.
func placeOf(r report) state.ImagePlace {
	return state.ImagePlace{
		Job: r.fetched.GetAlloc().GetJob(), Number: r.fetched.GetNumber(), Digest: state.Digest(r.fetched.GetDigest()), Node: r.session.Node(),
	}
}

// gonePlaces are the places of an image that no longer have it, as their nodes say,
// while others may.
func (r *restores) gonePlaces(sessions *session.Registry, job uint32, image *state.Image) (gone []state.ImagePlace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range image.Allocs {
		part := &image.Allocs[i]
		for _, node := range part.Holders() {
			if len(part.Holders()) > 1 && r.saysGone(sessions, part.Digest, node) != "" {
				gone = append(gone, state.ImagePlace{Job: job, Number: image.Number, Digest: part.Digest, Node: node, Gone: true})
			}
		}
	}
	return gone
}

// saysGone is why an image is lost on a node that should have it, in its words; "" =
// it does not say so. The caller holds r.mu.
func (r *restores) saysGone(sessions *session.Registry, digest state.Digest, node string) string {
	ask := r.asks[restoreKey{digest, node}]
	if ask == nil || ask.token != "" || ask.can || ask.property != propertyImage || ask.session != sessions.Get(node) {
		return ""
	}
	return cmp.Or(ask.reason, "it is gone")
}

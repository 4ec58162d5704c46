package registry

import (
	"maps"
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// keepLasts is how long an order to keep images counts. One that waited longer, for a slow
// store, is dropped. It comes again.
const keepLasts = time.Minute

// Keep is an order to keep images: the node deletes the others that it made, and those
// in its own store.
type Keep struct {
	node   string
	came   time.Duration
	named  map[string]bool   // by digest
	newest map[uint32]uint32 // number of those, by job
}

// Image is an image in a store of a node.
type Image struct {
	Job, Number uint32
	Digest      string
	Node        string // that made it
	Own         bool   // it is in the node's own store
}

// NewKeep is an order that a node takes now.
func NewKeep(order *pb.KeepImages, node string, now Time) *Keep {
	k := &Keep{node: node, came: now.Boot, named: map[string]bool{}, newest: map[uint32]uint32{}}
	for _, image := range order.GetImages() {
		k.named[string(image.GetDigest())] = true
		job := image.GetAlloc().GetJob()
		k.newest[job] = max(k.newest[job], image.GetNumber())
	}
	return k
}

// Late says whether it is too late to carry the order out.
func (k *Keep) Late(now Time) bool { return now.Boot-k.came > keepLasts }

// Keeps says whether an image stays: one that is named, one of another node in a store that
// nodes share, one that was fetched a moment ago, one from which an allocation here resumes, and one that is newer than those which are named of its job,
// if an allocation of the job is here or was since the order came. Whoever sent that may
// not have heard of such a one.
func (r *Registry) Keeps(k *Keep, image Image) bool {
	if k.named[image.Digest] || image.Node != k.node && !image.Own {
		return true
	}
	if fetched, was := r.fetched[image.Digest]; was && fetched+keepLasts > k.came {
		return true
	}
	isNew := image.Node == k.node && image.Number > k.newest[image.Job]
	for key, p := range r.allocs {
		if key.Job == image.Job && (isNew || string(p.Order.GetRestore().GetDigest()) == image.Digest) {
			return true
		}
	}
	left, was := r.left[image.Job]
	return isNew && was && left > k.came
}

// Fetches notes that an image of another node is being copied here, or was: it stays for a
// while, though an order to keep images does not name it yet.
func (r *Registry) Fetches(digest string, now Time) {
	if r.fetched == nil {
		r.fetched = map[string]time.Duration{}
	}
	maps.DeleteFunc(r.fetched, func(_ string, at time.Duration) bool { return now.Boot-at > 2*keepLasts })
	r.fetched[digest] = now.Boot
}

// leaves notes that an allocation of a job is forgotten.
func (r *Registry) leaves(job uint32, now Time) {
	if r.left == nil {
		r.left = map[uint32]time.Duration{}
	}
	maps.DeleteFunc(r.left, func(_ uint32, left time.Duration) bool { return now.Boot-left > keepLasts })
	r.left[job] = now.Boot
}

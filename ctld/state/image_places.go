package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file has where the images of jobs are. The node that made one has it, or a
// store that several nodes reach; and copies of it may be on other nodes, so that
// it is not lost with the node that made it.

// MaxImageCopies bounds the copies of one part of an image.
const MaxImageCopies = 3

// NoteImagePlaces records that nodes have copies of images, or that one no longer
// has what it had. It may be applied twice without harm.
type NoteImagePlaces struct {
	Places []ImagePlace `cbor:"1,keyasint"`
}

// ImagePlace is one part of an image on one node.
type ImagePlace struct {
	Job    uint32 `cbor:"1,keyasint"`
	Number uint32 `cbor:"2,keyasint"` // of the image
	Digest Digest `cbor:"3,keyasint"` // of the part
	Node   string `cbor:"4,keyasint"`
	// Gone: the node no longer has it. Otherwise it has a copy, durable and checked.
	Gone bool `cbor:"5,keyasint,omitempty"`
}

func (NoteImagePlaces) kind() Kind { return KindNoteImagePlaces }
func (c NoteImagePlaces) apply(s *State, result *Result) {
	if len(c.Places) > bounds.MaxReports {
		result.Refused = refuse(Exhausted, "%d places in one entry are too many: at most %d", len(c.Places), bounds.MaxReports)
		return
	}
	for i := range c.Places {
		s.notePlace(&c.Places[i])
	}
}

// Holders are the nodes that have a part of an image in their own stores: the one
// that made it first. There are none of a part in a store that several nodes reach.
func (p *ImageAlloc) Holders() []string {
	if p.Store != "" {
		return nil
	}
	if p.Lost {
		return p.Copies
	}
	return append([]string{p.Node}, p.Copies...)
}

// Elsewhere reports whether an image survives the nodes that made it: each part is in
// a store that several nodes reach, or on a second node.
func (i *Image) Elsewhere() bool {
	return !slices.ContainsFunc(i.Allocs, func(p ImageAlloc) bool { return p.Store == "" && len(p.Copies) == 0 })
}

// offNodes reports whether an image survives the nodes of a job that may leave: each part
// is elsewhere, or on a node that stays.
func (t *tables) offNodes(job *Job, image *Image) bool {
	return !slices.ContainsFunc(image.Allocs, func(p ImageAlloc) bool {
		return p.Store == "" && len(p.Copies) == 0 && (p.Lost || t.mayLeave(job, p.Node))
	})
}

// copies are the nodes that have copies of some part, ascending.
func (i *Image) copies() (nodes []string) {
	for n := range i.Allocs {
		nodes = append(nodes, i.Allocs[n].Copies...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// Standing reports whether a job stands still until a second node has this image.
func (t *tables) Standing(image *pb.Image) bool {
	job, known := t.Job(image.GetAlloc().GetJob())
	return known && job.Phase == Running && job.Run.Away != nil && job.Run.Away.Number == image.GetNumber()
}

// part finds a part of an image by its digest; nil = it has none such.
func (i *Image) part(digest Digest) *ImageAlloc {
	for n := range i.Allocs {
		if i.Allocs[n].Digest == digest {
			return &i.Allocs[n]
		}
	}
	return nil
}

// CopiesOf are the nodes that have copies of an image, as a message names it.
func (t *tables) CopiesOf(message *pb.Image) []string {
	job, known := t.Job(message.GetAlloc().GetJob())
	if !known || len(message.GetDigest()) != len(Digest{}) {
		return nil
	}
	image := job.Saved.image(message.GetNumber())
	if image == nil {
		return nil
	}
	if part := image.part(Digest(message.GetDigest())); part != nil {
		return part.Copies
	}
	return nil
}

// PlaceMatters reports whether what is told of a place changes anything. The last
// place of a part is never given up here: DropImages does that.
func (t *tables) PlaceMatters(place *ImagePlace) bool {
	job, known := t.Job(place.Job)
	if !known || place.Digest == (Digest{}) {
		return false
	}
	image := job.Saved.image(place.Number)
	if image == nil {
		return false
	}
	part := image.part(place.Digest)
	if part == nil || part.Store != "" {
		return false
	}
	has := slices.Contains(part.Holders(), place.Node)
	if place.Gone {
		return has && len(part.Holders()) > 1
	}
	_, exists := t.nodes.Get(place.Node)
	return !has && exists && place.Node != part.Node && len(part.Copies) < MaxImageCopies
}

func (s *State) notePlace(place *ImagePlace) {
	if !s.PlaceMatters(place) {
		return
	}
	job, _ := s.Job(place.Job)
	next, saved := job.withSaved()
	image := saved.image(place.Number)
	image.Allocs = slices.Clone(image.Allocs)
	part := image.part(place.Digest)
	at, copied := slices.BinarySearch(part.Copies, place.Node)
	switch {
	case !place.Gone:
		part.Copies = slices.Insert(slices.Clone(part.Copies), at, place.Node)
	case copied:
		part.Copies = slices.Delete(slices.Clone(part.Copies), at, at+1)
	default:
		part.Lost = true
	}
	s.putJob(next)
	s.imageElsewhere(next)
}

// imageElsewhere ends the run of a job that waited for its image to be off its node.
func (s *State) imageElsewhere(job *Job) {
	if job.Phase == Running && job.Run.Away != nil {
		if number := job.Run.Away.Number; s.offNodes(job, job.Saved.image(number)) {
			s.leaveNode(job, number)
		}
		return
	}
	if !job.parkedWhole() || job.Saving() != nil || !s.keptSomewhere(job) {
		return
	}
	if image := job.Saved.image(job.Run.Suspension.Packed); image != nil && s.offNodes(job, image) {
		s.packedAway(job, image.Number)
	}
}

// PartsAtRisk are the parts of the newest image of a job that would be lost, or out
// of reach, with a node that may leave at any moment: those that are on no other
// node. They are to be copied.
func (t *tables) PartsAtRisk(job *Job) (image *Image, parts []int) {
	images := job.Images()
	if len(images) == 0 {
		return nil, nil
	}
	image = &images[0]
	for n := range image.Allocs {
		part := &image.Allocs[n]
		if part.Store == "" && len(part.Copies) < MaxImageCopies && !t.safe(job, part) {
			parts = append(parts, n)
		}
	}
	return image, parts
}

// safe reports whether a part of an image is on a node that stays, or on two that do
// not leave just now.
func (t *tables) safe(job *Job, part *ImageAlloc) bool {
	holders := part.Holders()
	for _, name := range holders {
		if !t.mayLeave(job, name) {
			return true
		}
	}
	return len(holders) > 1
}

// mayLeave reports whether a node may be taken away from a job: others own it, or it
// is being emptied.
func (t *tables) mayLeave(job *Job, name string) bool {
	node, known := t.nodes.Get(name)
	return !known || node.Evacuation != nil || t.keptFrom(job, node) || t.policy.OwnerOf(name) != "" && !t.OwnersJob(job, name)
}

// MayKeepCopy reports whether a node can be given a copy of a part of an image: it is
// up, takes jobs, and does not have it.
func (t *tables) MayKeepCopy(job *Job, part *ImageAlloc, name string) bool {
	node, known := t.nodes.Get(name)
	return known && node.Available() && !t.keptFrom(job, node) && name != part.Node && !slices.Contains(part.Copies, name)
}

// CouldResume reports whether a node could resume a part of an image if it was idle,
// as far as the records tell, and whether it stays with the cluster. Copies go there
// first.
func (t *tables) CouldResume(job *Job, part *ImageAlloc, image *Image, name string) (could, stays bool) {
	node, known := t.nodes.Get(name)
	return known && t.cannotTakeAlloc(job, node, image, part) == "", known && !t.mayLeave(job, name)
}

// checkPlaces says what is impossible in the places of an image.
func (i *Image) checkPlaces() error {
	for n := range i.Allocs {
		part := &i.Allocs[n]
		switch {
		case len(part.Copies) > MaxImageCopies || part.Store != "" && (len(part.Copies) > 0 || part.Lost):
			return fmt.Errorf("a part in store %q has copies on %v", part.Store, part.Copies)
		case !slices.IsSorted(part.Copies) || len(slices.Compact(slices.Clone(part.Copies))) != len(part.Copies) || slices.Contains(part.Copies, part.Node):
			return fmt.Errorf("the part of node %s has copies on %v", part.Node, part.Copies)
		case part.Lost && len(part.Copies) == 0:
			return fmt.Errorf("the part of node %s is nowhere", part.Node)
		}
	}
	return nil
}

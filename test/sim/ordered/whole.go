package ordered

import (
	"maps"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// This file has what must hold of the images of jobs on several nodes: there is one
// of all parts, or none; no part ran on before all were saved; and all parts go on
// from the same one, or none does.

// source is from what a run goes on: the script if it is the zero value.
type source struct {
	epoch, number uint32
	known, sent   bool // sent: to another node, some part of it
}

// needed are the images that the log needs for a job, by digest.
func needed(job *state.Job) map[string]bool {
	all := map[string]bool{}
	add := func(image *state.Image) {
		for _, part := range image.Parts {
			if part.Digest != (state.Digest{}) {
				all[string(part.Digest[:])] = true
			}
		}
	}
	for i := range job.Images() {
		add(&job.Images()[i])
	}
	if saving := job.Saving(); saving != nil && saving.Made != nil {
		add(saving.Made)
	}
	return all
}

// checkImages looks at the images of which the log has just learned.
func (t *truth) checkImages(of *work, job *state.Job) {
	for n := range job.Images() {
		if image := &job.Images()[n]; !of.seen[image.Number] {
			of.seen[image.Number] = true
			t.checkWhole(job, image)
		}
	}
}

// checkWhole looks at an image of a job that has just come to be.
func (t *truth) checkWhole(job *state.Job, image *state.Image) {
	if image.Epoch != job.Epoch {
		t.w.fail("stale image: image %d of job %d is of run %d, and is told of in run %d", image.Number, job.ID, image.Epoch, job.Epoch)
	}
	if job.Run != nil && len(job.Run.Parts) != len(image.Parts) {
		t.w.fail("half an image: image %d of job %d has %d parts, and its run has %d", image.Number, job.ID, len(image.Parts), len(job.Run.Parts))
	}
	for k, part := range image.Parts {
		i := t.images[string(part.Digest[:])]
		switch {
		case i == nil:
			t.w.fail("half an image: image %d of job %d has no part of node %s", image.Number, job.ID, part.Node)
		case i.key != partKey{job.ID, image.Epoch} || i.number != image.Number || i.index != k || i.node.name != part.Node:
			t.w.fail("half an image: image %d of run %d of job %d has as part %d, of node %s, %s, which is part %d of node %s", image.Number, image.Epoch, job.ID, k, part.Node, i, i.index, i.node.name)
		case !i.there() && !i.lost:
			t.w.fail("not durable: image %d of job %d is told of, and its part of node %s is nowhere", image.Number, job.ID, part.Node)
		case len(image.Parts) > 1 && i.ranOn != 0:
			t.w.fail("torn: %s of node %s stood at %v and ran on at %v, before all parts of job %d were saved", i, part.Node, i.stood, i.ranOn, job.ID)
		}
	}
	if len(image.Parts) > 1 {
		t.w.Gangs++
		t.w.trace("log", "image %d of job %d is there, of all %d parts", image.Number, job.ID, len(image.Parts))
	}
}

// checkSource is asked of each part when its processes run for the first time: all
// parts of a run go on from the same image, each from its own part, when all are
// restored.
func (t *truth) checkSource(s *shim) {
	want := s.order.GetRestore()
	from := source{epoch: want.GetPart().GetEpoch(), number: want.GetNumber(), known: true}
	if first := t.sources[s.key]; !first.known {
		t.sources[s.key] = from
	} else if first.epoch != from.epoch || first.number != from.number {
		t.w.fail("wrong image: part %s goes on from image %d on %s, and another part of it from image %d", s.key, from.number, s.m.name, first.number)
	}
	if s.image == nil {
		return
	}
	all := len(s.order.GetAllocation())
	switch i := s.image; {
	case want == nil || i.digest != string(want.GetDigest()) || i.key != (partKey{s.key.job, from.epoch}) || i.key.epoch >= s.key.epoch || i.number != from.number || i.index != s.index():
		t.w.fail("wrong image: part %s, number %d of its run, goes on on %s from %s, number %d of its run", s.key, s.index(), s.m.name, i, i.index)
	case t.wereUp[s.key] < all:
		t.w.fail("half a gang: part %s goes on on %s with %d of %d parts restored", s.key, s.m.name, t.wereUp[s.key], all)
	case all > 1:
		t.countGang(s, i.node != s.m)
	}
}

func (t *truth) countGang(s *shim, sent bool) {
	of := t.sources[s.key]
	if s.isBatch() {
		t.w.GangsOn++
	}
	if sent && !of.sent {
		of.sent = true
		t.sources[s.key] = of
		t.w.GangsSent++
	}
}

// tried notes that the log knows of one more restore that failed.
func (t *truth) tried(of *work, job *state.Job) {
	tries := 0
	if job.Saved != nil {
		tries = len(job.Saved.Tries)
	}
	if tries > of.tries {
		t.excuse(job.ID, "a restore failed, by the log")
	}
	of.tries = tries
}

// checkForgotten looks at the images that were given up: of each some part is gone,
// or cannot be read.
func (t *truth) checkForgotten(before map[string]bool, job *state.Job) {
	now := t.work[job.ID].images
	there := map[uint32]bool{}
	for _, digest := range slices.Sorted(maps.Keys(before)) {
		if i := t.images[digest]; i != nil && !now[digest] {
			known, one := there[i.number]
			there[i.number] = (one || !known) && i.there() && !i.spoiled
		}
	}
	for _, number := range slices.Sorted(maps.Keys(there)) {
		if there[number] {
			t.w.fail("image forgotten: image %d is there, and job %d does not go on from it: %s", number, job.ID, job.Detail)
		}
	}
}

package ordered

import (
	"maps"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/test/sim/node"
)

// This file has what must hold of the images of jobs on several nodes: there is one
// of all allocations, or none; no allocation ran on before all were saved; and all allocations go on
// from the same one, or none does.

// source is from what a run goes on: the script if it is the zero value.
type source struct {
	epoch, number uint32
	known, sent   bool // sent: to another node, some allocation of it
}

// needed are the images that the log needs for a job, by digest.
func needed(job *state.Job) map[string]bool {
	all := map[string]bool{}
	add := func(image *state.Image) {
		for _, alloc := range image.Allocs {
			if alloc.Digest != (state.Digest{}) {
				all[string(alloc.Digest[:])] = true
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

// copied checks the copies of which the log has just learned, and counts them. A job that
// is packed ends only with an image that survives its node.
func (t *truth) copied(of *work, job *state.Job) {
	for n := range job.Images() {
		image := &job.Images()[n]
		for _, alloc := range image.Allocs {
			for _, name := range alloc.Copies {
				i, key := t.images[string(alloc.Digest[:])], name+string(alloc.Digest[:])
				if of.copies[key] {
					continue
				}
				if of.copies == nil {
					of.copies = map[string]bool{}
				}
				of.copies[key] = true
				t.w.Copied++
				if m := t.w.machineNamed(name); i != nil && m.Images[i.Digest] == nil && !i.Lost {
					t.w.fail("no copy: %s is told to be on %s, and is not", i, name)
				}
			}
		}
	}
	if job.Phase != state.Ending || !job.End.Frozen || !strings.Contains(job.End.Detail, "it was parked on node") {
		return
	}
	for _, alloc := range job.Images()[0].Allocs {
		reclaimed := strings.Contains(job.End.Detail, "node "+alloc.Node+" was reclaimed by")
		if reclaimed && alloc.Store == "" && len(alloc.Copies) == 0 {
			t.w.fail("given up too early: job %d leaves node %s with image %d, which is nowhere else", job.ID, alloc.Node, job.Images()[0].Number)
		}
	}
}

// checkWhole looks at an image of a job that has just come to be.
func (t *truth) checkWhole(job *state.Job, image *state.Image) {
	if image.Epoch != job.Epoch {
		t.w.fail("stale image: image %d of job %d is of run %d, and is told of in run %d", image.Number, job.ID, image.Epoch, job.Epoch)
	}
	if job.Run != nil && len(job.Run.Allocs) != len(image.Allocs) {
		t.w.fail("half an image: image %d of job %d has %d allocations, and its run has %d", image.Number, job.ID, len(image.Allocs), len(job.Run.Allocs))
	}
	for k, alloc := range image.Allocs {
		i := t.images[string(alloc.Digest[:])]
		switch {
		case i == nil:
			t.w.fail("half an image: image %d of job %d has no allocation of node %s", image.Number, job.ID, alloc.Node)
		case i.Key != registry.Key{Job: job.ID, Epoch: image.Epoch} || i.Number != image.Number || i.Index != k || i.Node.Name != alloc.Node:
			t.w.fail("half an image: image %d of run %d of job %d has as allocation %d, of node %s, %s, which is part %d of node %s", image.Number, image.Epoch, job.ID, k, alloc.Node, i, i.Index, i.Node.Name)
		case !i.There() && !i.Lost:
			t.w.fail("not durable: image %d of job %d is told of, and its allocation of node %s is nowhere", image.Number, job.ID, alloc.Node)
		case len(image.Allocs) > 1 && i.RanOn != 0:
			t.w.fail("torn: %s of node %s stood at %v and ran on at %v, before all allocations of job %d were saved", i, alloc.Node, i.Frozen, i.RanOn, job.ID)
		}
	}
	if len(image.Allocs) > 1 {
		t.w.Gangs++
		t.w.trace("log", "image %d of job %d is there, of all %d allocations", image.Number, job.ID, len(image.Allocs))
	}
}

// checkSource is asked of each allocation when its processes run for the first time: all
// allocations of a run go on from the same image, each from its own allocation, when all are
// restored.
func (t *truth) checkSource(s *node.Shim) {
	want := s.Order.GetRestore()
	from := source{epoch: want.GetAlloc().GetEpoch(), number: want.GetNumber(), known: true}
	if first := t.sources[s.Key]; !first.known {
		t.sources[s.Key] = from
	} else if first.epoch != from.epoch || first.number != from.number {
		t.w.fail("wrong image: allocation %s goes on from image %d on %s, and another allocation of it from image %d", s.Key, from.number, s.Node.Name, first.number)
	}
	if s.Image == nil {
		return
	}
	all := len(s.Order.GetAllocation())
	switch i := s.Image; {
	case want == nil || i.Digest != string(want.GetDigest()) || i.Key != (registry.Key{Job: s.Key.Job, Epoch: from.epoch}) || i.Key.Epoch >= s.Key.Epoch || i.Number != from.number || i.Index != s.Index():
		t.w.fail("wrong image: allocation %s, number %d of its run, goes on on %s from %s, number %d of its run", s.Key, s.Index(), s.Node.Name, i, i.Index)
	case t.wereUp[s.Key] < all:
		t.w.fail("half a gang: allocation %s goes on on %s with %d of %d allocations restored", s.Key, s.Node.Name, t.wereUp[s.Key], all)
	case all > 1:
		t.countGang(s, i.Node != s.Node)
	}
}

func (t *truth) countGang(s *node.Shim, sent bool) {
	of := t.sources[s.Key]
	if s.IsBatch() {
		t.w.GangsOn++
	}
	if sent && !of.sent {
		of.sent = true
		t.sources[s.Key] = of
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

// checkForgotten looks at the images that were given up: of each some allocation is gone,
// or cannot be read. A job that may not repeat anything is over with its newest one.
func (t *truth) checkForgotten(before map[string]bool, job *state.Job) {
	if c := job.Spec.Checkpoint; job.Phase == state.Finished && !job.Spec.Requeue && c.IntervalS == 0 && !c.IntervalAuto {
		return
	}
	now := t.work[job.ID].images
	there := map[uint32]bool{}
	for _, digest := range slices.Sorted(maps.Keys(before)) {
		if i := t.images[digest]; i != nil && !now[digest] {
			one, known := there[i.Number]
			there[i.Number] = (one || !known) && i.There() && !i.Spoiled
		}
	}
	for _, number := range slices.Sorted(maps.Keys(there)) {
		if there[number] {
			t.w.fail("image forgotten: image %d is there, and job %d does not go on from it: %s", number, job.ID, job.Detail)
		}
	}
}

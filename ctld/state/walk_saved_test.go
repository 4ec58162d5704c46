package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// firstSavedSeed is that of the walks in which jobs are saved.
const firstSavedSeed = 1000

// TestSavedWalk is TestRandomWalk with jobs that are saved, moved and restored, and
// whose images are lost.
func TestSavedWalk(t *testing.T) {
	seeds, steps := prototest.Soak(5, 40), 1500
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, firstSavedSeed+seed, steps)
		})
	}
}

// saved makes commands about saves, many of which make no sense.
func (w *walker) saved(v *View) Command {
	switch n := w.Intn(14); {
	case n >= 13 && w.chance(30):
		return w.failMoves(v)
	case n >= 13:
		return AllocsEnded{Reports: w.endings(v)}
	case n >= 11 && w.chance(25):
		return w.places(v)
	case n >= 11 && w.chance(25):
		return w.leaving(v)
	case n >= 11:
		return w.placeOne(v)
	case n >= 10:
		var c AllocsReady
		for _, job := range runsOf(inPhases(v, Running)) {
			for i := range job.Run.Allocs {
				c.Allocs = append(c.Allocs, AllocRef{job.ID, job.Epoch, job.Run.Allocs[i].Node})
			}
		}
		return c
	case n < 4:
		c := SaveJobs{Targets: w.targets(v), UID: w.uid(), Privileged: w.chance(80), Purpose: SavePurpose(1 + w.Intn(3))}
		if running := inPhases(v, Running); len(running) > 0 && w.chance(80) {
			c.Targets = []Target{{Job: running[w.Intn(len(running))].ID}}
		}
		if c.Purpose == SaveMove && w.chance(50) {
			c.To = []string{w.node()}
			if other := w.node(); w.chance(50) && other > c.To[0] {
				c.To = append(c.To, other)
			}
		}
		return c
	case n < 8:
		return w.saveReports(v)
	case n < 9:
		c := AbandonSaves{}
		for _, job := range inPhases(v, Running) {
			if saving := job.Saving(); saving != nil && w.chance(50) {
				c.Saves = append(c.Saves, SaveRef{job.ID, job.Epoch - uint32(w.Intn(10)/9), saving.Number, "test"})
			}
		}
		return c
	}
	c := DropImages{}
	for job := range v.WithImages {
		drop := ImageDrop{Job: job.ID, Epoch: job.Epoch - uint32(w.Intn(10)/9), Reason: "test"}
		for _, image := range job.Images() {
			if w.chance(40) {
				drop.Numbers = append(drop.Numbers, image.Number)
			}
		}
		if w.chance(20) {
			c.Drops = append(c.Drops, drop)
		}
	}
	return c
}

// leaving has a job leave a node that is being emptied, or does what is due of that.
func (w *walker) leaving(v *View) Command {
	for job := range v.Evacuated {
		if saving := job.Saving(); saving != nil && saving.Purpose == SaveEvacuation && w.chance(70) {
			return AllocsSaved{Reports: []SaveReport{{
				Job: job.ID, Epoch: job.Epoch, Node: job.Run.BatchHost(), Number: saving.Number, Digest: walkedDigest(job.ID, job.Epoch, saving.Number, job.Run.BatchHost()), Frozen: w.chance(90),
			}}}
		}
		if job.Run.Away != nil && w.chance(50) {
			return w.places(v)
		}
		if w.chance(60) {
			return SaveJobs{Targets: []Target{{Job: job.ID}}, Privileged: true, Purpose: SaveEvacuation}
		}
	}
	return EndEvacuations{}
}

// places says of some images that nodes have them, or no longer do.
func (w *walker) places(v *View) Command {
	var c NoteImagePlaces
	for job := range v.WithImages {
		for i := range job.Images() {
			image := &job.Images()[i]
			part := &image.Allocs[w.Intn(len(image.Allocs))]
			place := ImagePlace{Job: job.ID, Number: image.Number, Digest: part.Digest, Node: w.node(), Gone: w.chance(30)}
			if holders := part.Holders(); place.Gone && len(holders) > 0 {
				place.Node = holders[w.Intn(len(holders))]
			}
			if w.chance(5) {
				place.Digest[0]++
			}
			c.Places = append(c.Places, place)
		}
	}
	return c
}

// placeOne starts some jobs on one node each, or two, which have a CPU for each;
// and those that resume from an image of several nodes there, or where they were
// sent.
func (w *walker) placeOne(v *View) Command {
	var c PlaceJobs
	for _, job := range inPhases(v, Waiting) {
		if !w.chance(30) {
			continue
		}
		order := StartOrder{Job: job.ID, Partition: job.Spec.Partitions[0]}
		names, gpus := []string{w.node()}, uint32(w.Intn(3)/2)
		if other := w.node(); w.chance(40) && other > names[0] {
			names = append(names, other)
		}
		if image := v.NextImage(job, v.TimeMS()); image != nil {
			order.Image, gpus = image.Number, image.Allocs[0].GPUs
			switch {
			case len(image.Allocs) == 1:
				names = names[:1]
			case len(job.Saved.To) > 0 && w.chance(50):
				names = job.Saved.To
			case w.chance(90):
				names = image.Nodes()
			}
		}
		for _, name := range names {
			if node, known := v.Node(name); known && node.Available() {
				order.Allocs = append(order.Allocs, w.oneAlloc(node, gpus))
			}
		}
		c.Starts = append(c.Starts, order)
	}
	return c
}

// oneAlloc takes a CPU and some GPUs, if they are there.
func (w *walker) oneAlloc(node *Node, gpus uint32) AllocOrder {
	alloc := AllocOrder{Node: node.Name, Tasks: 1}
	for cpu := range node.Inventory.CPUs {
		if !node.use.cpus.Contains(cpu) && len(alloc.CPUs) == 0 {
			alloc.CPUs = []uint32{cpu}
		}
	}
	for _, id := range []string{"b", "a1", "a"} {
		if device := node.device(id); device != nil && uint32(len(alloc.Devices)) < gpus && node.use.sharesOf(id) < device.Shares {
			alloc.Devices = append(alloc.Devices, DeviceOrder{ID: id, Shares: 1})
		}
	}
	return alloc
}

// endings are of jobs that are told to end, and of some whose nodes are lost.
func (w *walker) endings(v *View) []AllocReport {
	var reports []AllocReport
	for _, job := range runsOf(inPhases(v, Running, Ending)) {
		for i := range job.Run.Allocs {
			report := AllocReport{Job: job.ID, Epoch: job.Epoch, Node: job.Run.Allocs[i].Node, Cause: pb.EndCause_END_CAUSE_CANCELLED}
			switch {
			case job.Phase == Ending && w.chance(80):
			case job.Phase == Running && job.Run.Restore != nil && w.chance(40):
				report.Cause = pb.EndCause_END_CAUSE_RESTORE_FAILED
			case job.Phase == Running && w.chance(10):
				report.Cause = pb.EndCause_END_CAUSE_SUPERVISOR_DIED
			default:
				continue
			}
			reports = append(reports, report)
		}
	}
	return reports
}

func (w *walker) saveReports(v *View) Command {
	var c AllocsSaved
	for _, job := range inPhases(v, Running, Ending) {
		number := uint32(w.Intn(4))
		if job.Run != nil && w.chance(80) {
			number += job.Run.Numbered
		}
		saving := job.Saving()
		if saving == nil && !w.chance(10) {
			continue
		}
		if saving != nil && w.chance(80) {
			number = saving.Number
		}
		stands := saving != nil && (saving.Purpose.stands() || job.IsGang())
		for i := range job.Run.Allocs {
			if i > 0 && w.chance(30) {
				break // the others are slower
			}
			report := SaveReport{
				Job: job.ID, Epoch: job.Epoch - uint32(w.Intn(20)/19), Node: job.Run.Allocs[i].Node, Number: number,
				Frozen: w.chance(20) || stands && w.chance(80), PackMS: w.Uint32() >> w.Intn(32), StandingMS: w.Uint32() >> w.Intn(32),
			}
			if report.Error = "test"; w.chance(75) {
				report.Digest, report.Error = walkedDigest(job.ID, job.Epoch, number, report.Node), ""
			}
			c.Reports = append(c.Reports, report)
		}
	}
	return c
}

// walkedDigest is that of the image of an allocation.
func walkedDigest(job, epoch, number uint32, node string) Digest {
	return blobDigest(fmt.Appendf(nil, "%d.%d %d %s", job, epoch, number, node))
}

// resumeFrom has a start be one from an image, often of what it was saved with.
func (w *walker) resumeFrom(v *View, order *StartOrder) {
	order.Image = uint32(w.Intn(20) / 19)
	job, known := v.Job(order.Job)
	if !known || v.NextImage(job, v.TimeMS()) == nil || w.chance(10) {
		return
	}
	image := v.NextImage(job, v.TimeMS())
	order.Image = image.Number
	for i := range order.Allocs {
		if alloc, gpus := order.Allocs[i], image.Allocs[0].GPUs; len(image.Allocs) == 1 && uint32(len(alloc.Devices)) >= gpus {
			alloc.Devices = alloc.Devices[:gpus]
			order.Allocs = []AllocOrder{alloc}
			return
		}
	}
}

// tallySaves counts what happens to images, and checks that no run resumes from
// anything but an image of an earlier one that was kept until then, and that an
// image which a live job needs goes only where a command or an end says so.
func tallySaves(t *testing.T, before, after *View, command Command, tally map[string]int) {
	t.Helper()
	for job := range after.LiveJobs() {
		was, known := before.Job(job.ID)
		var next *Image
		if known {
			next = before.NextImage(was, after.TimeMS())
		}
		switch {
		case !known || job.Run == nil || job.Run.Restore == nil || was.Epoch == job.Epoch || job.Run.Moved:
		case next == nil || next.Number != job.Run.Restore.Number:
			t.Fatalf("job %d resumes from image %d, and should from %+v", job.ID, job.Run.Restore.Number, next)
		default:
			tally["continued"]++
			if job.IsGang() {
				tally["gang continued"]++
			}
		}
		if known && len(job.Images()) > len(was.Images()) {
			tally["images"]++
		}
		checkWholeImages(t, job)
		tallyGang(t, was, job, command, tally)
		tallyMoves(t, was, job, tally)
	}
	for job := range before.WithImages {
		now, known := after.Job(job.ID)
		if !known || now.Phase == Finished || len(job.Images()) == 0 || len(now.Images()) > 0 {
			continue
		}
		switch command.(type) {
		case DropImages, RequeueJobs:
			tally["dropped"]++
			continue
		}
		if job.Phase == Waiting || now.Phase != Waiting || now.Epoch != max(job.Epoch, job.lastEpoch()) {
			t.Fatalf("job %d has lost its images by %T", job.ID, command)
		}
		tally["start over"]++
	}
}

// checkWholeImages: each part of an image is of the same save as the others.
func checkWholeImages(t *testing.T, job *Job) {
	t.Helper()
	for _, image := range job.Images() {
		for _, alloc := range image.Allocs {
			if alloc.Digest != walkedDigest(job.ID, image.Epoch, image.Number, alloc.Node) {
				t.Fatalf("job %d: the allocation of node %s of image %d is another's", job.ID, alloc.Node, image.Number)
			}
		}
	}
}

// tallyGang counts what happens to saves of jobs on several nodes, and checks
// that after one ends the frozen allocations are told to continue, or to end.
func tallyGang(t *testing.T, was, job *Job, command Command, tally map[string]int) {
	t.Helper()
	if was == nil || was.Saving() == nil || !was.IsGang() || was.Epoch != job.Epoch {
		return
	}
	before, now := was.Saving(), job.Saving()
	switch {
	case now != nil && now.Number == before.Number:
		if before.Made == nil && now.Made != nil {
			tally["gang allocations"]++
		}
		return
	case now != nil || job.Phase != Running:
	case job.frozenBy() == before.Number: // it goes on elsewhere
	case job.Run.Abandoned != before.Number:
		t.Fatalf("job %d: nobody tells its allocations to continue after image %d, by %T", job.ID, before.Number, command)
	}
	if job.Saved.image(before.Number) != nil {
		tally["gang images"]++
	} else {
		tally["gang not saved"]++
	}
}

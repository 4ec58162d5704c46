package state

import (
	"fmt"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

// firstReclaimedSeed is that of the walks in which nodes are reclaimed.
const firstReclaimedSeed = 2000

// TestReclaimedWalk: TestRandomWalk with owners who take their nodes back, and in half
// of the walks with jobs that are saved and moved.
func TestReclaimedWalk(t *testing.T) {
	seeds, steps := prototest.Soak(4, 40), 1500
	for seed := range int64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, firstReclaimedSeed+seed, steps)
		})
	}
}

// reclaim makes a command of an owner, or of somebody who is none; or has a job that
// is to be parked made ready or parked. Nodes are released soon, or nothing would run
// any longer.
func (w *walker) reclaim(v *View) Command {
	names := []string{w.node()}
	if w.chance(30) {
		names = append(names, w.node())
	}
	job, node := w.activeJob(v)
	if job.Phase == Running && w.chance(80) {
		names[0] = node
		if job.Configuring() && w.chance(80) {
			return w.allReady(job)
		}
	}
	coordinator := []string{"", w.userName()}[w.Intn(2)]
	var reclaimed []string
	for node := range v.Nodes() {
		if node.Reclaim != nil {
			reclaimed = append(reclaimed, node.Name)
		}
	}
	if parks := w.parks(v); parks != nil && w.chance(70) {
		return *parks
	}
	if parked := v.ParkedJobs(); w.saves && len(parked) > 0 && w.chance(60) {
		job := parked[w.Intn(len(parked))]
		if saving := job.Saving(); saving != nil && w.chance(70) {
			return AllocsSaved{Reports: []SaveReport{{
				Job: job.ID, Epoch: job.Epoch, Node: job.Run.BatchHost(), Number: saving.Number, Digest: walkedDigest(job.ID, job.Epoch, saving.Number, job.Run.BatchHost()), Frozen: w.chance(90),
			}}}
		}
		return SaveJobs{Targets: []Target{{Job: job.ID}}, Privileged: true, Purpose: SavePack}
	}
	switch {
	case len(reclaimed) > 0 && w.chance(40):
		return ReleaseNodes{Names: reclaimed, User: w.userName(), Privileged: w.chance(85)}
	case w.chance(20):
		return EndReclaims{}
	case w.chance(10):
		return ReleaseNodes{Names: v.NodesOwnedBy(coordinator), Coordinator: coordinator}
	}
	c := ReclaimNodes{
		Names: names, WithinMS: int64(w.Intn(20_000)), Kill: w.chance(5), User: w.userName(),
		Coordinator: coordinator, Privileged: w.chance(90),
	}
	if w.chance(70) {
		c.UntilMS = v.TimeMS() + int64(w.Intn(60_000))
	}
	return c
}

func (w *walker) allReady(job *Job) AllocsReady {
	var c AllocsReady
	for i := range job.Run.Allocs {
		c.Allocs = append(c.Allocs, AllocRef{job.ID, job.Epoch, job.Run.Allocs[i].Node})
	}
	return c
}

// parks is the word of a node that it has parked a job; nil when there is none to
// park.
func (w *walker) parks(v *View) *AllocsSuspended {
	for job := range v.LiveJobs() {
		if !job.Suspended() {
			continue
		}
		for i := range job.Run.Allocs {
			if alloc := &job.Run.Allocs[i]; alloc.ParkByMS != 0 && !alloc.Parked {
				return &AllocsSuspended{Reports: []SuspendReport{{
					Job: job.ID, Epoch: job.Epoch, Node: alloc.Node, Number: w.suspendNumber(job), Frozen: true, Parked: w.chance(90), ParkMS: w.Uint32(),
				}}}
			}
		}
	}
	return nil
}

// tallyReclaims counts reclaims and the guests that are parked.
func tallyReclaims(before *View, s *State, result *Result, tally map[string]int) {
	if result.Kind == KindReclaimNodes && result.Refused == nil {
		tally["reclaims"]++
	}
	for _, id := range result.ChangedJobs {
		job, known := s.Job(id)
		if was, there := before.Job(id); there && was.Saving() != nil && was.Saving().Purpose == SavePack && known && job.Phase == Ending && job.End.Frozen {
			tally["packed"]++
		}
		if !known || !job.HoldsNodes() {
			continue
		}
		for i := range job.Run.Allocs {
			_, was := before.LiveAlloc(AllocRef{id, job.Epoch, job.Run.Allocs[i].Node})
			if job.Run.Allocs[i].Parked && was != nil && !was.Parked {
				tally["parked"]++
			}
		}
	}
}

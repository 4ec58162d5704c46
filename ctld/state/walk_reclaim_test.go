package state

import (
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
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
	if parks := w.parks(v); parks != nil && w.chance(95) {
		return *parks
	}
	if parked := v.ParkedJobs(); w.saves && len(parked) > 0 && w.chance(60) {
		job := parked[w.Intn(len(parked))]
		if saving := job.Saving(); saving != nil && w.chance(70) {
			unheard := saving.unheard(job)
			node := unheard[w.Intn(len(unheard))]
			return AllocsSaved{Reports: []SaveReport{{
				Job: job.ID, Epoch: job.Epoch, Node: node, Number: saving.Number, Digest: walkedDigest(job.ID, job.Epoch, saving.Number, node), Frozen: w.chance(90),
			}}}
		}
		if v.packedHere(job) && w.chance(80) {
			return w.places(v)
		}
		return SaveJobs{Targets: []Target{{Job: job.ID}}, Privileged: true, Purpose: SavePack}
	}
	if w.chance(15) {
		return w.noteHolds(v)
	}
	switch {
	case len(reclaimed) > 0 && w.chance(40):
		return ReleaseNodes{Names: reclaimed, User: w.userName(), Privileged: w.chance(85), Trigger: w.trigger()}
	case w.chance(20):
		return EndReclaims{}
	case w.chance(10):
		return ReleaseNodes{Names: v.NodesOwnedBy(coordinator), Coordinator: coordinator}
	}
	c := ReclaimNodes{
		Names: names, WithinMS: int64(w.Intn(20_000)), Kill: w.chance(5), User: w.userName(),
		Coordinator: coordinator, Privileged: w.chance(90), Trigger: w.trigger(), Detail: "for once",
	}
	if w.chance(40) {
		c.GPUs = uint32(1 + w.Intn(3))
		for node := range v.Nodes() {
			c.Names = append(c.Names, node.Name)
		}
	}
	if w.chance(70) {
		c.UntilMS = v.TimeMS() + int64(w.Intn(60_000))
	}
	return c
}

// noteHolds is what a node says of its owner, often an old word.
func (w *walker) noteHolds(v *View) Command {
	c := NoteHolds{Name: w.node(), Number: uint64(w.Intn(4))}
	node, known := v.Node(c.Name)
	if known {
		c.Number += node.HoldsNumber
	}
	if w.chance(30) {
		c.Released, c.ReleasedAgoMS = c.Number, int64(w.Intn(5000))
	}
	over := known && node.Reclaim != nil && w.chance(70)
	for _, trigger := range nodesTriggers {
		if !over && w.chance(30) {
			c.Holds = append(c.Holds, ToldHold{Trigger: trigger, Number: uint64(max(int(c.Number)-w.Intn(3), 0)), By: w.userName(), Kill: w.chance(5), WithinMS: int64(w.Intn(20_000)), LeftMS: int64(w.Intn(2) * w.Intn(60_000))})
		}
	}
	return c
}

// trigger is what reclaims or releases nodes at the controllers; often nothing in particular.
func (w *walker) trigger() pb.ReclaimTrigger {
	return []pb.ReclaimTrigger{0, 0, 0, 0, pb.ReclaimTrigger_RECLAIM_TRIGGER_COMMAND, pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS}[w.Intn(6)]
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
					Job: job.ID, Epoch: job.Epoch, Node: alloc.Node, Number: w.suspendNumber(job), Frozen: true, Parked: w.chance(90), Freed: &Freed{TookMS: w.Uint32()},
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
		for _, name := range result.Nodes {
			if node, _ := s.Node(name); node.keepsSome() {
				tally["GPUs reclaimed"]++
			}
		}
	}
	if result.Kind == KindSetLending && result.Refused == nil {
		tally["terms set"]++
	}
	if result.Kind == KindReleaseNodes {
		for _, name := range result.Nodes {
			if node, _ := s.Node(name); node.Reclaim != nil {
				tally["holds dropped"]++
			}
		}
	}
	if result.Kind == KindNoteHolds {
		for _, name := range result.Nodes {
			if node, _ := s.Node(name); node.Reclaim != nil && node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL) != nil {
				tally["held on the node"]++
			}
		}
	}
	for _, id := range result.ChangedJobs {
		job, known := s.Job(id)
		if was, there := before.Job(id); there && known && job.Phase == Ending && job.End.Frozen && was.Phase == Running {
			if job.IsGang() && was.Suspended() {
				tally["gangs packed"]++
			}
			switch saving := was.Saving(); {
			case saving != nil && saving.Purpose == SavePack:
				tally["packed into a shared store"]++
			case was.Suspended() && before.packedHere(was):
				tally["packed"]++
			}
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

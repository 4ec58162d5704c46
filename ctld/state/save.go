package state

import (
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	words "github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// SaveJobs orders that the processes of running jobs are saved: their nodes see
// it in WantedAllocs. For a job that is to move, room elsewhere is taken at
// once, or the move is refused. It may be applied twice without harm.
// AllocsSaved records the outcome, or AbandonSaves when a node does not report.
type SaveJobs struct {
	Targets     []Target    `cbor:"1,keyasint"`
	UID         uint32      `cbor:"2,keyasint,omitempty"`
	Privileged  bool        `cbor:"3,keyasint,omitempty"`
	Coordinator string      `cbor:"4,keyasint,omitempty"`
	Purpose     SavePurpose `cbor:"5,keyasint"`           // all but SavePreemption, which PreemptJobs orders; SavePack and SaveEvacuation are the leader's
	To          []string    `cbor:"6,keyasint,omitempty"` // of a move, ascending; none = any other node that can
	// SeesAll: private_data hides no jobs from the caller.
	SeesAll bool `cbor:"7,keyasint,omitempty"`
}

// A node has SaveTimeoutS for a save, and savePatienceS more to report it. The
// longest saves are those of GPU memory on slow disks.
const (
	SaveTimeoutS  = 30 * 60
	savePatienceS = 60
)

// moveWishMS is how long, after the end of its run, a job that was moved waits
// for the node that was named, or for any but the one it left.
const moveWishMS = 5 * 60 * 1000

func (SaveJobs) kind() Kind { return KindSaveJobs }
func (c SaveJobs) apply(s *State, result *Result) {
	if c.Purpose < SaveInterval || c.Purpose == SavePreemption || c.Purpose > SaveEvacuation {
		result.Refused = refuse(Invalid, "no such purpose of a save: %d", c.Purpose)
		return
	}
	for i, name := range c.To {
		if _, known := s.nodes.Get(name); !known || c.Purpose != SaveMove || i > 0 && c.To[i-1] >= name {
			result.Refused = refuse(NotFound, "Node %s not found", bounds.Clip(name, bounds.MaxNameBytes))
			return
		}
	}
	s.onTargets(c.Targets, requester{uid: c.UID, privileged: c.Privileged, coordinator: c.Coordinator, seesAll: c.SeesAll}, result, func(job *Job) (*Job, Code, string) {
		if refused := s.maySave(job, c.Purpose); refused != nil {
			return nil, refused.Code, refused.Message
		}
		if c.Purpose == SaveMove {
			return s.startMove(job, c.To)
		}
		if c.Purpose == SavePack {
			return s.pack(job), OK, ""
		}
		return s.saving(job, &Saving{Purpose: c.Purpose}), OK, ""
	})
	for i := range result.Jobs {
		job, known := s.Job(result.Jobs[i].Job)
		switch {
		case !known || result.Jobs[i].Code > AlreadyDone:
		case job.Saving() != nil:
			result.Jobs[i].Image = job.Saving().Number
		case job.Moving() != nil:
			result.Jobs[i].Image = job.Moving().Number
		}
	}
}

// startMove saves a job that is to resume elsewhere, where there is room for
// it. Some of the nodes may be its own: then its run ends once it is saved, since it
// holds there what it is to get.
func (s *State) startMove(job *Job, to []string) (*Job, Code, string) {
	if refused := s.mayMove(job, to); refused != nil {
		return nil, refused.Code, refused.Message
	}
	if overlaps(job, to) {
		return s.saving(job, &Saving{Purpose: SaveReplace, To: to}), OK, ""
	}
	move := Move{To: to, SinceMS: s.timeMS}
	need := imageNeed(job)
	run, why := s.successor(job, &move, &need)
	if run == nil {
		return nil, WrongState, "there is no room for it elsewhere now" + colon(why)
	}
	next := s.saving(job, &Saving{Purpose: SaveMove, To: to})
	move.Number = next.Run.Saving.Number
	next.Run.Move = &move
	next.Saved.MoveFailed = nil
	return s.placed(next, run), OK, ""
}

// MaySave reports whether a job could be saved now without a request, as far as
// its record tells.
func (t *tables) MaySave(job *Job) bool { return t.maySave(job, SaveInterval) == nil }

// maySave says why a job cannot be saved now, as far as its record tells.
func (t *tables) maySave(job *Job, purpose SavePurpose) *Refusal {
	switch {
	case job.Phase == Waiting:
		return refuse(WrongState, "%s", textIsPending)
	case job.Phase != Running:
		return refuse(WrongState, "%s", textAlreadyOver)
	case job.Spec.Checkpoint.Mode == words.CheckpointNone:
		return refuse(WrongState, "it was submitted with --checkpoint=none: submit it again without")
	case job.Spec.Checkpoint.Mode == words.CheckpointApp:
		return refuse(WrongState, "it saves itself (--checkpoint=app): send it the signal at which it does, with gcancel --signal=SIG %d", job.ID)
	case job.NotSavable() != "":
		return refuse(WrongState, "%s", job.NotSavable())
	case job.Configuring():
		return refuse(WrongState, "%s: it has just been started, and is not ready yet", textTryLater)
	case job.Run.Away != nil:
		return refuse(AlreadyDone, "it leaves its node, and is frozen with image %d until a second node has a copy of that", job.Run.Away.Number)
	case purpose == SavePack:
		return t.mayPack(job)
	case purpose == SaveEvacuation && t.mayEvacuateJob(job) != nil:
		return t.mayEvacuateJob(job)
	case job.Suspended():
		return refuse(WrongState, "it is suspended: save it when it continues")
	case job.frozenToMove():
		return refuse(AlreadyDone, "it is being moved, and is frozen with image %d", job.Run.Move.Number)
	case purpose == SaveMove && len(job.Run.Beside) >= maxBeside:
		return refuse(WrongState, "%s: several nodes still clean up after earlier runs of it", textTryLater)
	}
	if silent := t.silentNode(job); silent != "" {
		return refuse(WrongState, "%s: node %s does not respond", textTryLater, silent)
	}
	switch under := job.Saving(); {
	case under == nil:
		return nil
	case under.Purpose == SavePreemption && purpose == SaveMove:
		return refuse(WrongState, "it is being saved to make room for %s, and resumes by itself", under.Order.forWords())
	case under.Purpose >= purpose:
		return refuse(AlreadyDone, "it is being saved already")
	}
	return nil
}

// silentNode is a node of a running job that does not respond; "" when all do.
func (t *tables) silentNode(job *Job) string {
	for i := range job.Run.Allocs {
		if node, known := t.nodes.Get(job.Run.Allocs[i].Node); !known || node.NotResponding {
			return job.Run.Allocs[i].Node
		}
	}
	return ""
}

// mayMove says why a job cannot resume on some nodes, or if none is named on
// any other nodes, as far as the records tell. The nodes themselves are asked
// later.
func (t *tables) mayMove(job *Job, to []string) *Refusal {
	need := imageNeed(job)
	list := words.FormatHostList(to)
	switch {
	case !t.networkAllowed(job):
		return t.keepsNetwork(job)
	case slices.Equal(to, need.Nodes()):
		return refuse(WrongState, "it runs on node %s already", list)
	case len(to) > 0 && len(to) != len(need.Allocs):
		return refuse(WrongState, "it runs on %d nodes, and cannot resume on %d: name as many", len(need.Allocs), len(to))
	case len(to) > 0:
		if why := t.cannotTake(job, to, &need); why != "" {
			return refuse(WrongState, "it cannot resume on node %s: %s", list, why)
		}
		return nil
	}
	return t.resumesWithout(job, &need, need.Nodes())
}

// keepsNetwork is the refusal for a job that shares the network of its nodes and may not
// do so elsewhere.
func (t *tables) keepsNetwork(job *Job) *Refusal {
	return refuse(WrongState, "it shares the node's network, which none of its partitions allows any more, and keeps the network that it has: it runs on where it is; once it waits again, %s", job.StartOverText())
}

// resumesWithout says why a job cannot resume without some of its nodes.
func (t *tables) resumesWithout(job *Job, need *Image, without []string) *Refusal {
	for _, name := range job.Spec.shape.Request.RequiredNodes {
		if slices.Contains(without, name) {
			return refuse(WrongState, "it cannot resume elsewhere: it was submitted for node %s (--nodelist)", name)
		}
	}
	able, why := t.takers(job, need, func(name string) bool { return slices.Contains(without, name) })
	if t.idleSet(job, need, able) != nil {
		return nil
	}
	others := 0
	for node := range t.Nodes() {
		if t.inPartitions(job, node.Name) && !slices.Contains(without, node.Name) {
			others++
		}
	}
	switch {
	case others == 0:
		return refuse(WrongState, "it cannot resume elsewhere: its partitions have no other node")
	case len(able) == 0:
		return refuse(WrongState, "it cannot resume elsewhere: of %d other nodes of its partitions none could take it; %s", others, why)
	}
	return refuse(WrongState, "it cannot resume elsewhere: it needs %d nodes, and of %d other nodes of its partitions only %d could take a part of it%s", len(need.Allocs), others, len(able), semicolon(why))
}

func semicolon(why string) string {
	if why == "" {
		return ""
	}
	return "; " + why
}

// overlaps reports whether a job runs on one of some nodes.
func overlaps(job *Job, nodes []string) bool {
	return slices.ContainsFunc(nodes, func(name string) bool { return job.Alloc(name) != nil })
}

// imageNeed is what an image of the present run would say about its GPUs.
func imageNeed(job *Job) Image {
	need := Image{Allocs: make([]ImageAlloc, len(job.Run.Allocs))}
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		need.Allocs[i] = ImageAlloc{Node: alloc.Node, GPUs: uint32(len(alloc.Devices)), Tasks: alloc.Tasks, Tmp: alloc.TmpBytes}
		for _, device := range alloc.Devices {
			need.Model = device.Model
		}
	}
	need.Names, need.Between = job.Run.otherNames(), job.between()
	return need
}

// cannotTake says why nodes could not resume a job even if they were idle; ""
// when they could. There are as many as the job had.
func (t *tables) cannotTake(job *Job, names []string, image *Image) string {
	idle := make([]place.Node, len(names))
	indices := make([]place.NodeIndex, len(names))
	for i, name := range names {
		node, known := t.nodes.Get(name)
		if !known {
			return "is not known"
		}
		if why := t.cannotTakeAlloc(job, node, image, &image.Allocs[i]); why != "" {
			if len(names) > 1 {
				why = "node " + name + " " + why
			}
			return why
		}
		idle[i], indices[i] = place.Idle(schedNode(node), false), place.NodeIndex(i)
	}
	if _, _, fits := place.Fit(idle, indices, image.request(job.Spec.shape.Request)); !fits {
		return "lacks what the job requests: CPUs, memory, features, or the node name that it requires"
	}
	return ""
}

// cannotTakeAlloc is cannotTake for one of them.
func (t *tables) cannotTakeAlloc(job *Job, node *Node, image *Image, alloc *ImageAlloc) string {
	switch {
	case node.Inventory == nil:
		return "has never registered"
	case node.Down:
		return "is down"
	case node.Drain:
		return "is drained"
	case node.NotResponding:
		return "does not respond"
	case !node.Available():
		return "takes no jobs now"
	case t.keptFrom(job, node):
		return "is reclaimed by its owner"
	case t.unwelcome(job, node) != "":
		return t.unwelcome(job, node)
	case image.Between != nil && node.crossed(image.Between.Prefixes()) != "":
		return node.crossed(image.Between.Prefixes())
	case t.keptReserved(job, node.Name) != "":
		return t.keptReserved(job, node.Name)
	case !t.inPartitions(job, node.Name):
		return "is in none of the job's partitions"
	case job.isOtherOn(node.Name):
		return "has other accounts: the number of the job's user, or of the group, is somebody else's there"
	}
	whole, of := uint32(0), uint32(0)
	for i := range node.Inventory.Devices {
		device := &node.Inventory.Devices[i]
		if device.Parent != "" {
			continue
		}
		whole++
		if device.Model == image.Model {
			of++
		}
	}
	switch {
	case of < alloc.GPUs && whole > 0 && of == 0:
		return fmt.Sprintf("has GPUs of another model than %s", image.Model)
	case of < alloc.GPUs:
		return fmt.Sprintf("has %d GPUs of model %s, and the job %d", of, image.Model, alloc.GPUs)
	case job.takesWholeNodes(t) && whole != alloc.GPUs:
		return fmt.Sprintf("has %d GPUs, and the job, which gets all of a node, had %d", whole, alloc.GPUs)
	}
	return ""
}

// takesWholeNodes reports whether the job gets all devices of its nodes, in any
// of its partitions.
func (j *Job) takesWholeNodes(t *tables) bool {
	if j.Spec.Exclusive {
		return true
	}
	for _, name := range j.Spec.Partitions {
		if partition, known := t.policy.Partition(name); known && partition.Exclusive == policy.ExclusiveNode {
			return true
		}
	}
	return false
}

// networkAllowed reports whether the job may start in any of its partitions
// with the network that it has.
func (t *tables) networkAllowed(job *Job) bool {
	return slices.ContainsFunc(job.Spec.Partitions, func(name string) bool {
		partition, known := t.policy.Partition(name)
		return known && allowsNetwork(t.policy, partition, job)
	})
}

func (t *tables) inPartitions(job *Job, node string) bool {
	for _, name := range job.Spec.Partitions {
		if partition, known := t.policy.Partition(name); known && partition.Has(node) {
			return true
		}
	}
	return false
}

// saving is a running job with a new save, which replaces one that is under way
// and has the next number.
func (s *State) saving(job *Job, saving *Saving) *Job {
	next, saved := s.calledOff(job, "it is saved to make room instead").withSaved()
	saved.Number++
	saving.Number = saved.Number
	saving.SinceMS = s.timeMS
	saving.DeadlineMS = s.timeMS + (SaveTimeoutS+savePatienceS)*1000
	next.setSaving(saving)
	next.Run.Abandoned, next.Run.Away = 0, nil
	return next
}

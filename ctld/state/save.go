package state

import (
	"fmt"
	"slices"

	words "github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// SaveJobs orders that the processes of running jobs are saved: their nodes see
// it in WantedParts. It may be applied twice without harm. What becomes of it is
// PartsSaved's, or AbandonSaves' when a node does not say.
type SaveJobs struct {
	Targets     []Target    `cbor:"1,keyasint"`
	UID         uint32      `cbor:"2,keyasint,omitempty"`
	Privileged  bool        `cbor:"3,keyasint,omitempty"`
	Coordinator string      `cbor:"4,keyasint,omitempty"`
	Purpose     SavePurpose `cbor:"5,keyasint"`           // all but SavePreemption, which PreemptJobs orders
	To          []string    `cbor:"6,keyasint,omitempty"` // of a move, ascending; none = any other node that can
}

// A node has SaveTimeoutS for a save, and until its deadline, savePatienceS
// later, to say so. The longest are those of GPU memory on slow disks.
const (
	SaveTimeoutS  = 30 * 60
	savePatienceS = 60
)

// moveWishMS is for how long after its end a run that was moved waits for the
// node that was named, or for any but the one it left.
const moveWishMS = 5 * 60 * 1000

func (SaveJobs) kind() Kind   { return KindSaveJobs }
func (SaveJobs) level() Level { return LevelFrozen }

func (c SaveJobs) apply(s *State, result *Result) {
	if c.Purpose < SaveInterval || c.Purpose > SaveMove {
		result.Refused = refuse(Invalid, "no such purpose of a save: %d", c.Purpose)
		return
	}
	for i, name := range c.To {
		if _, known := s.nodes.Get(name); !known || c.Purpose != SaveMove || i > 0 && c.To[i-1] >= name {
			result.Refused = refuse(NotFound, "Node %s not found", clip(name, MaxNameBytes))
			return
		}
	}
	s.onTargets(c.Targets, requester{c.UID, c.Privileged, c.Coordinator}, result, func(job *Job) (*Job, Code, string) {
		if refused := s.maySave(job, c.Purpose); refused != nil {
			return nil, refused.Code, refused.Message
		}
		if c.Purpose == SaveMove {
			if refused := s.mayMove(job, c.To); refused != nil {
				return nil, refused.Code, refused.Message
			}
		}
		return s.saving(job, &Saving{Purpose: c.Purpose, To: c.To}), OK, ""
	})
	for i := range result.Jobs {
		if job, known := s.Job(result.Jobs[i].Job); known && result.Jobs[i].Code <= AlreadyDone && job.Saving() != nil {
			result.Jobs[i].Image = job.Saving().Number
		}
	}
}

// MaySave says whether a job could be saved now without anybody asking, as far as
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
	case job.Suspended():
		return refuse(WrongState, "it is suspended: save it when it goes on")
	}
	if silent := t.silentNode(job); silent != "" {
		return refuse(WrongState, "%s: node %s does not respond", textTryLater, silent)
	}
	switch under := job.Saving(); {
	case under == nil:
		return nil
	case under.Purpose == SavePreemption && purpose == SaveMove:
		return refuse(WrongState, "it is being saved to make room for job %d, and goes on elsewhere by itself", under.Order.For)
	case under.Purpose >= purpose:
		return refuse(AlreadyDone, "it is being saved already")
	}
	return nil
}

// silentNode is one of the nodes of a running job that does not respond; "" when
// all do.
func (t *tables) silentNode(job *Job) string {
	for i := range job.Run.Parts {
		if node, known := t.nodes.Get(job.Run.Parts[i].Node); !known || node.NotResponding {
			return job.Run.Parts[i].Node
		}
	}
	return ""
}

// mayMove says why a job cannot go on on some nodes, or if none is named on any
// but its own, as far as the records tell. The nodes themselves are asked later.
func (s *State) mayMove(job *Job, to []string) *Refusal {
	from := job.Run.BatchHost()
	need := imageNeed(job)
	list := words.FormatHostList(to)
	switch {
	case slices.Equal(to, need.Nodes()):
		return refuse(WrongState, "it runs on node %s already", list)
	case len(to) == 0 && job.IsGang():
		return refuse(WrongState, "its processes know the names of its %d nodes, so it goes on elsewhere only where somebody says: name as many nodes, with gcontrol migrate %d NODES", len(need.Parts), job.ID)
	case len(to) > 0 && len(to) != len(need.Parts):
		return refuse(WrongState, "it runs on %d nodes, and can not go on on %d: name as many", len(need.Parts), len(to))
	case len(to) > 0:
		if why := s.cannotTake(job, to, &need); why != "" {
			return refuse(WrongState, "it can not go on on node %s: %s", list, why)
		}
		return nil
	}
	others, why := 0, ""
	for node := range s.Nodes() {
		if node.Name == from || !s.inPartitions(job, node.Name) {
			continue
		}
		others++
		not := s.cannotTake(job, []string{node.Name}, &need)
		if not == "" {
			return nil
		}
		if why == "" {
			why = fmt.Sprintf("node %s %s", node.Name, not)
		}
	}
	if others == 0 {
		return refuse(WrongState, "it can not go on elsewhere: its partitions have no other node")
	}
	return refuse(WrongState, "it can not go on elsewhere: of %d other nodes of its partitions none could take it; %s", others, why)
}

// imageNeed is what an image of the present run would say of its GPUs.
func imageNeed(job *Job) Image {
	need := Image{Parts: make([]ImagePart, len(job.Run.Parts))}
	for i := range job.Run.Parts {
		part := &job.Run.Parts[i]
		need.Parts[i] = ImagePart{Node: part.Node, GPUs: uint32(len(part.Devices)), Tasks: part.Tasks}
		for _, device := range part.Devices {
			need.Model = device.Model
		}
	}
	need.Names = job.Run.otherNames()
	return need
}

// cannotTake says why nodes could not go on with a job though they were idle; ""
// when they could. They are as many as it had.
func (t *tables) cannotTake(job *Job, names []string, image *Image) string {
	idle := make([]place.Node, len(names))
	indices := make([]place.NodeIndex, len(names))
	for i, name := range names {
		node, known := t.nodes.Get(name)
		if !known {
			return "is not known"
		}
		if why := t.cannotTakePart(job, node, image, &image.Parts[i]); why != "" {
			if len(names) > 1 {
				why = "node " + name + " " + why
			}
			return why
		}
		idle[i], indices[i] = place.Idle(schedNode(node), false), place.NodeIndex(i)
	}
	if _, _, fits := place.Fit(idle, indices, image.request(job.Spec.shape.Request)); !fits {
		return "has not what the job asks for: CPUs, memory, features or its very name"
	}
	return ""
}

// cannotTakePart is cannotTake for one of them.
func (t *tables) cannotTakePart(job *Job, node *Node, image *Image, part *ImagePart) string {
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
	case !t.inPartitions(job, node.Name):
		return "is in none of the job's partitions"
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
	case of < part.GPUs && whole > 0 && of == 0:
		return fmt.Sprintf("has GPUs of another model than %s", image.Model)
	case of < part.GPUs:
		return fmt.Sprintf("has %d GPUs of model %s, and the job %d", of, image.Model, part.GPUs)
	case job.takesWholeNodes(t) && whole != part.GPUs:
		return fmt.Sprintf("has %d GPUs, and the job, which gets all of a node, had %d", whole, part.GPUs)
	}
	return ""
}

// takesWholeNodes says whether the job gets all devices of its nodes, in some
// partition.
func (j *Job) takesWholeNodes(t *tables) bool {
	if j.Spec.Exclusive {
		return true
	}
	for _, name := range j.Spec.Partitions {
		if partition, known := t.policy.Partition(name); known && partition.Exclusive == ExclusiveNode {
			return true
		}
	}
	return false
}

func (t *tables) inPartitions(job *Job, node string) bool {
	for _, name := range job.Spec.Partitions {
		if partition, known := t.policy.Partition(name); known && partition.Has(node) {
			return true
		}
	}
	return false
}

// saving is a running job of which an image is to be made, in place of one that
// is being made: the next number is its.
func (s *State) saving(job *Job, saving *Saving) *Job {
	next, saved := job.withSaved()
	saved.Number++
	saving.Number = saved.Number
	saving.SinceMS = s.timeMS
	saving.DeadlineMS = s.timeMS + (SaveTimeoutS+savePatienceS)*1000
	next.setSaving(saving)
	next.Run.Abandoned = 0
	return next
}

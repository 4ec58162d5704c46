package state

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file keeps guests from nodes that they could not leave as soon as the owner may ask
// for. A node says how long it takes at most to park a guest; its terms say how soon that
// has to be (Lending.NoticeMS), and whether a guest runs there of which nobody can say it.

// ParkBound is how long parking a guest takes a node at most that has so many GPUs of a
// model, and uses all of their memory; "" and 0 = one without GPUs.
type ParkBound struct {
	Model    string `cbor:"1,keyasint,omitempty"`
	Devices  uint32 `cbor:"2,keyasint,omitempty"`
	BoundMS  uint32 `cbor:"3,keyasint"`
	Measured uint32 `cbor:"4,keyasint,omitempty"` // parks on which that is founded, roughly
}

func (b ParkBound) compare(model string, devices uint32) int {
	return cmp.Or(cmp.Compare(b.Model, model), cmp.Compare(b.Devices, devices))
}

// maxParkBounds bounds those of a node: one for each number of its devices, and that
// without.
const maxParkBounds = bounds.MaxDevicesPerNode + 1

// parkBoundRecords are what a node says, each once.
func parkBoundRecords(messages []*pb.ParkBound) []ParkBound {
	var kept []ParkBound
	for _, m := range messages[:min(len(messages), maxParkBounds)] {
		kept = append(kept, ParkBound{Model: bounds.Clip(m.GetModel(), bounds.MaxNameBytes), Devices: m.GetDevices(), BoundMS: max(m.GetBoundMs(), 1), Measured: m.GetMeasured()})
	}
	slices.SortStableFunc(kept, func(a, b ParkBound) int { return a.compare(b.Model, b.Devices) })
	return slices.CompactFunc(kept, func(a, b ParkBound) bool { return a.compare(b.Model, b.Devices) == 0 })
}

// parkBound is how long parking a guest takes at most that has so many devices of a model
// and so much host memory; 0 = nobody can say, and why, as in "it …".
func (n *Node) parkBound(model string, devices uint32, memory uint64) (ms uint32, why string) {
	at, known := slices.BinarySearchFunc(n.Inventory.ParkBounds, devices, func(b ParkBound, devices uint32) int { return b.compare(model, devices) })
	switch {
	case !known && devices == 0:
		return 0, "its node does not say how long that takes"
	case !known:
		return 0, "it has GPUs, and the driver of its node cannot copy what is on them"
	}
	if need := n.gpuMemory(model) * uint64(devices); memory < need {
		return 0, fmt.Sprintf("its memory (%s) has no room for that of its GPUs (%s): use --mem=%s or more", spec.FormatSize(memory), spec.FormatSize(need), spec.FormatSize(need))
	}
	return n.Inventory.ParkBounds[at].BoundMS, ""
}

// gpuMemory is the memory of the largest device of a model.
func (n *Node) gpuMemory(model string) (bytes uint64) {
	for i := range n.Inventory.Devices {
		if d := &n.Inventory.Devices[i]; d.Model == model {
			bytes = max(bytes, d.MemoryBytes)
		}
	}
	return bytes
}

// allocBound is parkBound of an allocation.
func (n *Node) allocBound(alloc *Alloc) (ms uint32, why string) {
	if n.Inventory == nil {
		return 0, "its node does not say how long that takes"
	}
	model := ""
	if len(alloc.Devices) > 0 {
		model = alloc.Devices[0].Model
	}
	return n.parkBound(model, uint32(len(alloc.Devices)), alloc.MemoryBytes)
}

// jobBound is the longest of a run's nodes on which it is a guest; guest = false where it
// is none.
func (t *tables) jobBound(job *Job) (ms uint32, why string, guest bool) {
	if job.Run == nil {
		return 0, "", false
	}
	for i := range job.Run.Allocs {
		alloc := &job.Run.Allocs[i]
		node, known := t.nodes.Get(alloc.Node)
		if !known || alloc.Released || !t.hasTerms(node) || t.OwnersJob(job, node.Name) {
			continue
		}
		guest = true
		bound, not := node.allocBound(alloc)
		if not != "" {
			return 0, not, true
		}
		ms = max(ms, bound)
	}
	return ms, "", guest
}

// hasTerms reports whether somebody lends a node: it has an owner, or terms.
func (t *tables) hasTerms(node *Node) bool {
	return node.Lending != nil || t.policy.OwnerOf(node.Name) != ""
}

// tooSlow says why a guest with so much of a node could not leave it as soon as its terms
// want, as in "node n1 …"; "" = it could.
func (t *tables) tooSlow(node *Node, ms uint32, why string) string {
	terms := node.Lending.Terms()
	switch {
	case why != "" && !terms.Unbounded:
		return "takes only guests of which it is known how soon they can leave: " + why
	case ms > terms.NoticeMS:
		return fmt.Sprintf("wants guests to leave within %s, and parking this one may take %s: ask for fewer GPUs, or ask the node's owner (glend %s --notice)", boundText(terms.NoticeMS), boundText(ms), node.Name)
	}
	return ""
}

// checkBound says why a job may not have an allocation on a node as a guest.
func (t *tables) checkBound(job *Job, node *Node, alloc *Alloc) error {
	if !t.hasTerms(node) || t.OwnersJob(job, node.Name) {
		return nil
	}
	ms, why := node.allocBound(alloc)
	if slow := t.tooSlow(node, ms, why); slow != "" {
		return fmt.Errorf("node %s %s", node.Name, slow)
	}
	return nil
}

// boundText is a time in seconds: "0.25 s", "60 s".
func boundText(ms uint32) string {
	if ms%1000 == 0 {
		return fmt.Sprintf("%d s", ms/1000)
	}
	return fmt.Sprintf("%d.%02d s", ms/1000, ms%1000/10)
}

type slowKey struct {
	association, gpus uint32
	model             string
	memory            uint64
}

// boundsRule keeps jobs from nodes that they could not leave soon enough as guests. Jobs
// that are charged alike and ask for as much on a node are judged once.
func (t *tables) boundsRule() nodeRule {
	if len(t.policy.Owners) == 0 && t.lending.Len() == 0 {
		return nil
	}
	var lent []*Node
	for node := range t.Nodes() {
		if node.Inventory != nil && t.hasTerms(node) {
			lent = append(lent, node)
		}
	}
	return newNodeRule(askedOf, func(job *Job) (out nodesFor) {
		for _, node := range lent {
			if t.slowFor(job, askedOf(job), node) != "" {
				out.never = append(out.never, node.Name)
			}
		}
		return out
	})
}

// askedOf is the most GPUs, and the least memory, that a waiting job may get on a node.
func askedOf(job *Job) slowKey {
	request := &job.Spec.shape.Request
	least := request.Least()
	key := slowKey{association: job.Association, model: request.Model, memory: least.NodeMemoryBytes, gpus: mostGPUs(request, &least)}
	if least.WholeMemory {
		key.memory = bounds.NoLimit
	}
	return key
}

// mostGPUs is the most that a job may get on one node.
func mostGPUs(r *place.Request, least *place.Least) uint32 {
	if r.GPUsPerNode > 0 {
		return r.GPUsPerNode
	}
	return uint32(min(least.GPUs, bounds.MaxDevicesPerNode))
}

// slowFor says why a waiting job could not leave a node soon enough; "" = it could, or it
// is no guest there. Where it may get GPUs of several models the slowest counts.
func (t *tables) slowFor(job *Job, asked slowKey, node *Node) string {
	if t.OwnersJob(job, node.Name) {
		return ""
	}
	memory := min(asked.memory, node.Inventory.MemoryBytes)
	if asked.gpus == 0 {
		ms, why := node.parkBound("", 0, memory)
		return t.tooSlow(node, ms, why)
	}
	slow, models := "", map[string]uint32{}
	for i := range node.Inventory.Devices {
		if d := &node.Inventory.Devices[i]; d.Parent == "" && (asked.model == "" || d.Model == asked.model) {
			models[d.Model]++
		}
	}
	for i := range node.Inventory.Devices {
		model := node.Inventory.Devices[i].Model
		count := models[model]
		if count == 0 {
			continue
		}
		delete(models, model)
		ms, why := node.parkBound(model, min(asked.gpus, count), memory)
		slow = cmp.Or(slow, t.tooSlow(node, ms, why))
	}
	return slow
}

// maxSlowJudged bounds how many nodes are judged for what is said of one waiting job: very
// many may be listed.
const maxSlowJudged = 256

// tellSlow says of a waiting job which nodes it could not leave soon enough.
func (t *tables) tellSlow(message *pb.Job, job *Job) {
	if len(t.policy.Owners) == 0 && t.lending.Len() == 0 {
		return
	}
	asked, text, others, judged := askedOf(job), "", 0, 0
	for node := range t.Nodes() {
		if node.Inventory == nil || !t.hasTerms(node) || !t.inPartitions(job, node.Name) {
			continue
		}
		if judged++; judged > maxSlowJudged {
			break
		}
		why := t.slowFor(job, asked, node)
		if why == "" {
			continue
		}
		if others++; others <= maxReasonsNamed {
			text = joinSentences(text, "node "+node.Name+" "+why)
		}
	}
	if others > maxReasonsNamed {
		text = joinSentences(text, fmt.Sprintf("%d more nodes likewise", others-maxReasonsNamed))
	}
	if text != "" {
		addKept(message, job, text)
	}
}

// checkBounds says what is wrong with the bounds of a node.
func (n *Node) checkBounds() error {
	if n.Inventory == nil {
		return nil
	}
	bounds := n.Inventory.ParkBounds
	for i := range bounds {
		if bounds[i].BoundMS == 0 || i > 0 && bounds[i-1].compare(bounds[i].Model, bounds[i].Devices) >= 0 {
			return fmt.Errorf("node %s: its bounds are not in order: %+v", n.Name, bounds)
		}
	}
	if len(bounds) > maxParkBounds {
		return fmt.Errorf("node %s has %d bounds", n.Name, len(bounds))
	}
	return nil
}

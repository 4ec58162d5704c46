package place

import (
	"slices"
	"strings"
)

// Kinds tells which nodes are alike: which look the same to every request that names
// neither nodes nor switches. It follows what is free on them.
type Kinds struct {
	nodes    []Node
	of       []int32 // by node
	all      []kind
	known    map[kind]int32
	models   []string // ascending only by number; the first is none
	features map[string]int32
	feature  []int32 // by node: its features, as a number
}

// kind is what a request looks at, of a node. Nodes of one kind make it the same offer.
type kind struct {
	available, exclusive, busy, userOnly, tmpOpen bool

	users   uint8  // how many users' jobs, up to two, of a node that is one user's
	user    uint32 // and the first of them
	cpus    uint32 // free
	devices uint32 // free, of all models
	whole   uint32 // that would be free if no job were there

	memory, freeMemory, parkedMemory uint64
	tmp, freeTmp, tmpPerCPU          uint64
	guests                           Guests
	features                         int32
	free                             [kindModels]freeModel
	alone                            int32 // 1 + the node, if it is like no other
}

// kindModels is how many classes of devices a node may have to be like others.
const kindModels = 3

// freeModel is how many devices of a class are free.
type freeModel struct {
	model int32 // position in Kinds.models; 0 = none
	kept  bool
	count uint16
}

// NewKinds looks at the nodes, which Update has to be told of when they change.
func NewKinds(nodes []Node) *Kinds {
	k := &Kinds{
		nodes: nodes, of: make([]int32, len(nodes)), feature: make([]int32, len(nodes)),
		known: make(map[kind]int32), models: []string{""}, features: make(map[string]int32),
	}
	for i := range nodes {
		k.feature[i] = k.featuresOf(&nodes[i])
		of := k.look(NodeIndex(i))
		if i > 0 && of == k.all[k.of[i-1]] { // found faster so: neighbours often are alike
			k.of[i] = k.of[i-1]
		} else {
			k.of[i] = k.numberOf(of)
		}
	}
	return k
}

func (k *Kinds) featuresOf(n *Node) int32 {
	if len(n.Features) == 0 {
		return 0
	}
	key := strings.Join(n.Features, "\x00")
	number, known := k.features[key]
	if !known {
		number = int32(len(k.features)) + 1
		k.features[key] = number
	}
	return number
}

// number is that of the kind that a node is of now.
func (k *Kinds) number(index NodeIndex) int32 { return k.numberOf(k.look(index)) }

func (k *Kinds) numberOf(of kind) int32 {
	number, known := k.known[of]
	if !known {
		number = int32(len(k.all))
		k.known[of] = number
		k.all = append(k.all, of)
	}
	return number
}

func (k *Kinds) look(index NodeIndex) kind {
	n := &k.nodes[index]
	of := kind{
		available: n.Available, exclusive: n.Exclusive, busy: n.Busy, userOnly: n.UserOnly, tmpOpen: n.TmpOpen,
		cpus:   uint32(n.FreeCPUs.Count()),
		memory: n.MemoryBytes, freeMemory: n.FreeMemory, parkedMemory: n.ParkedMemory,
		tmp: n.TmpBytes, freeTmp: n.FreeTmp, tmpPerCPU: n.TmpPerCPU, guests: n.Guests, features: k.feature[index],
	}
	if n.UserOnly {
		if of.users = uint8(min(len(n.Users), 2)); of.users > 0 {
			of.user = n.Users[0]
		}
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Healthy && d.Parent == WholeDevice && d.Shares > 0 {
			of.whole++
		}
		if !d.free(false) {
			continue
		}
		of.devices++
		if !k.count(&of, d) {
			of.alone = int32(index) + 1
		}
	}
	return of
}

// count counts one more free device of a kind. It returns false where a node has too many
// unlike ones.
func (k *Kinds) count(of *kind, d *Device) bool {
	for i := range of.free {
		has := &of.free[i]
		if has.model == 0 {
			*has = freeModel{model: k.model(d.Model), kept: d.Kept}
		}
		if has.kept == d.Kept && k.models[has.model] == d.Model {
			has.count++
			return true
		}
	}
	return false
}

// model is the number of a model, at least 1.
func (k *Kinds) model(name string) int32 {
	if at := slices.Index(k.models[1:], name); at >= 0 {
		return int32(at) + 1
	}
	k.models = append(k.models, name)
	return int32(len(k.models)) - 1
}

// mayOffer reports whether a node of the kind may make an offer; offerOf knows. A node that
// has less free than one that may not, may not either.
func (k *Kinds) mayOffer(w *want, of *kind) bool {
	each, cpus := w.devicesEach(), max(product(w.slots, w.unit.cpus), 1)
	switch {
	case !of.available || of.exclusive || w.Exclusive && of.busy,
		uint64(of.cpus) < cpus || uint64(of.devices) < each,
		w.memory == memoryPerNode && of.freeMemory < w.MemoryPerNode,
		w.memory == memoryPerCPU && of.freeMemory/w.MemoryPerCPU < cpus:
		return false
	case each == 0 || of.alone != 0:
		return true
	}
	for i := range of.free {
		if of.free[i].model == 0 {
			break
		}
		model, count := k.models[of.free[i].model], uint64(0)
		if w.Model != "" && w.Model != model {
			continue
		}
		for j := range of.free { // some of a model may be kept, and others not
			if of.free[j].model == of.free[i].model {
				count += uint64(of.free[j].count)
			}
		}
		if count >= each {
			return true
		}
	}
	return false
}

// devicesEach is how many devices a node has at least of which the request gets some.
func (w *want) devicesEach() uint64 { return max(w.gpus, product(w.slots, w.unit.gpus)) }

// mindsGuests reports whether it matters on such a node whether a job is a guest.
func (of *kind) mindsGuests() bool {
	return of.guests.Bound || of.alone != 0 || slices.ContainsFunc(of.free[:], func(f freeModel) bool { return f.kept })
}

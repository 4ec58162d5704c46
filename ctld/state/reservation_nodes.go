package state

import (
	"cmp"
	"errors"
	"slices"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// NodesWanted is which nodes a reservation is to have, where they are not named.
type NodesWanted struct {
	Count int // so many nodes, or
	GPUs  uint32
	Model string           // of the GPUs; "" = any one model
	Each  place.Expression // of their features
}

// WithFeatures has the nodes chosen that have features, as in --constraint without
// counts.
func (w *NodesWanted) WithFeatures(text string) error {
	if text == "" {
		return nil
	}
	constraint, err := spec.ParseConstraint(text)
	if err != nil {
		return err
	}
	if len(constraint.Groups)+len(constraint.OneOf) > 0 {
		return errors.New("counts and brackets have no meaning here: use features joined by & or |")
	}
	w.Each = expressionOf(constraint.Each)
	return nil
}

// ReservableNodes chooses nodes for a reservation, or says why there are too few: nodes
// that nobody has reserved at that time, and that are free by its start; first those that
// nobody uses now, then by name.
func (v *View) ReservableNodes(r *Reservation, wanted *NodesWanted) ([]string, *Refusal) {
	candidates := v.reservable(r, wanted)
	if wanted.GPUs == 0 {
		if len(candidates) < wanted.Count {
			return nil, refuse(WrongState, "Requested nodes are busy: %d of the %d nodes are free at that time; ask for fewer, for a later time, or give Flags=IGNORE_JOBS", len(candidates), wanted.Count)
		}
		return names(candidates[:wanted.Count]), nil
	}
	most := uint32(0)
	for _, model := range v.models(candidates, wanted.Model) {
		chosen, gpus := withGPUs(candidates, model, wanted.GPUs)
		if most = max(most, gpus); gpus >= wanted.GPUs {
			return names(chosen), nil
		}
	}
	return nil, refuse(WrongState, "Requested nodes are busy: nodes with %d of the %d GPUs are free at that time; ask for fewer, for a later time, or give Flags=IGNORE_JOBS", most, wanted.GPUs)
}

func names(nodes []*Node) []string {
	list := make([]string, len(nodes))
	for i, node := range nodes {
		list[i] = node.Name
	}
	slices.Sort(list)
	return list
}

// reservable are the nodes that a reservation could have, the best first.
func (v *View) reservable(r *Reservation, wanted *NodesWanted) []*Node {
	var candidates []*Node
	for node := range v.Nodes() {
		partition, known := v.policy.Partition(r.Partition)
		if r.Partition != "" && (!known || !partition.Has(node.Name)) || !node.Available() {
			continue
		}
		if one := schedNode(node); !wanted.Each.Met(one.Features) {
			continue
		}
		alone := Reservation{Name: r.Name, StartMS: r.StartMS, EndMS: r.EndMS, Nodes: []string{node.Name}}
		busy, _ := v.runsInto(&alone, nil)
		switch {
		case v.choosesOther(r, &alone):
		case busy != nil && !r.yields() && !r.has(pb.ReservationFlag_RESERVATION_FLAG_IGNORE_JOBS):
		default:
			candidates = append(candidates, node)
		}
	}
	slices.SortStableFunc(candidates, func(a, b *Node) int { return cmp.Compare(len(a.use.jobs), len(b.use.jobs)) })
	return candidates
}

// choosesOther reports whether other nodes than one are chosen for a reservation, because
// that one is reserved at that time. One that may have nodes of others is not put where
// there is maintenance, unless it is for maintenance too: its jobs would find the node down.
func (t *tables) choosesOther(r, alone *Reservation) bool {
	for other := range t.overlapping(alone) {
		maintained := other.has(pb.ReservationFlag_RESERVATION_FLAG_MAINT) && !r.has(pb.ReservationFlag_RESERVATION_FLAG_MAINT)
		if !r.yields() || maintained {
			return true
		}
	}
	return false
}

// models are the models of GPU to try, ascending.
func (v *View) models(nodes []*Node, only string) []string {
	if only != "" {
		return []string{only}
	}
	var models []string
	for _, node := range nodes {
		for i := range node.Inventory.Devices {
			models = append(models, node.Inventory.Devices[i].Model)
		}
	}
	slices.Sort(models)
	return slices.Compact(models)
}

// withGPUs are the first nodes that have so many whole GPUs of a model together, and how
// many they have.
func withGPUs(nodes []*Node, model string, wanted uint32) (chosen []*Node, gpus uint32) {
	for _, node := range nodes {
		here := uint32(0)
		for i := range node.Inventory.Devices {
			if device := &node.Inventory.Devices[i]; device.Parent == "" && device.Model == model {
				here++
			}
		}
		if here == 0 || gpus >= wanted {
			continue
		}
		chosen, gpus = append(chosen, node), gpus+here
	}
	return chosen, gpus
}

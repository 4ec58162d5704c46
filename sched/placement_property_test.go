package sched

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/gleaner-hpc/gleaner/sched/place"
)

// wire gives most worlds a network of leaves and a switch above them, and some
// nodes features and users.
func (w *world) wire() {
	for i := range w.snapshot.Nodes {
		n := &w.snapshot.Nodes[i]
		for _, feature := range []string{"fast", "old"} {
			if w.random.IntN(2) == 0 {
				n.Features = append(n.Features, feature)
			}
		}
		slices.Sort(n.Features)
		if n.Busy {
			n.Users = []uint32{1 + w.random.Uint32N(3)}
			n.UserOnly = w.random.IntN(4) == 0
		}
	}
	for i := range w.snapshot.Partitions {
		w.snapshot.Partitions[i].ExclusiveUser = w.random.IntN(6) == 0
		w.snapshot.Partitions[i].Exclusive = w.random.IntN(12) == 0
	}
	if w.random.IntN(3) == 0 {
		return
	}
	top := place.Switch{Name: "top", Level: 1}
	leaves := make([]place.Switch, 1+w.random.IntN(4))
	for i := range leaves {
		leaves[i].Name = fmt.Sprintf("leaf%d", i)
	}
	for i := range w.snapshot.Nodes {
		leaf := &leaves[w.random.IntN(len(leaves))]
		leaf.Nodes = append(leaf.Nodes, place.NodeIndex(i))
		top.Nodes = append(top.Nodes, place.NodeIndex(i))
	}
	w.snapshot.Switches = leaves
	if w.random.IntN(5) > 0 {
		w.snapshot.Switches = append(leaves, top)
	}
}

// vary asks for more than counts: features, switches, per device, and who may
// share its nodes.
func (w *world) vary(s *Shape) {
	r := &s.Request
	feature := func(name string) place.Expression { return place.Expression{{Feature: name}} }
	switch w.random.IntN(10) {
	case 0:
		r.Constraint.Each = feature("ib")
	case 1:
		r.Constraint.Each = place.Expression{{Feature: "fast"}, {Feature: "old"}, {Op: place.Not}, {Op: place.And}}
	case 2:
		r.Constraint.Groups = []place.Group{{Count: 1 + w.random.Uint32N(2), Of: feature("fast")}, {Count: 1, Of: feature("old")}}
	case 3:
		r.Constraint.OneOf = []place.Expression{feature("fast"), feature("old")}
	}
	if w.random.IntN(5) == 0 {
		r.Switches, s.SwitchesWaitS = 1, w.random.Uint32N(2)*60
	}
	if r.Tasks > 0 && w.random.IntN(3) == 0 {
		r.GPUsPerNode, r.GPUsPerJob, r.GPUsPerTask = 0, 0, 1
	}
	if r.WantsGPUs() && w.random.IntN(4) == 0 {
		r.CPUsPerTask, r.CPUsPerGPU, r.MemoryPerCPU, r.MemoryPerGPU = 0, 2, 0, 1<<30
	}
	r.ExclusiveUser = w.random.IntN(12) == 0
	r.MostNodes = w.random.IntN(6) == 0
	if r.MostNodes && r.MinNodes > 0 {
		r.MaxNodes = r.MinNodes + 2
	}
}

// checkPlacement says what must never happen with constraints, switches and
// users, and does not. nodes is the cluster before the start.
func checkPlacement(t *testing.T, nodes []place.Node, job Job, shape Shape, start Start) {
	t.Helper()
	r := &shape.Request
	leaves := make(map[place.NodeIndex]string)
	oneOf := make([]bool, len(r.Constraint.OneOf))
	for i := range oneOf {
		oneOf[i] = true
	}
	counted := make([]uint32, len(r.Constraint.Groups))
	for _, alloc := range start.Placement.Allocs {
		n := &nodes[alloc.Node]
		if !r.Constraint.Each.Met(n.Features) {
			t.Fatalf("job %d on node %s with features %v, which do not meet %s", job.ID, n.Name, n.Features, r.Constraint.Each)
		}
		for i := range oneOf {
			oneOf[i] = oneOf[i] && r.Constraint.OneOf[i].Met(n.Features)
		}
		for i := range counted {
			if r.Constraint.Groups[i].Of.Met(n.Features) {
				counted[i]++
			}
		}
		others := slices.ContainsFunc(n.Users, func(uid uint32) bool { return uid != job.UID })
		if (n.UserOnly || r.ExclusiveUser) && others {
			t.Fatalf("job %d of user %d on node %s beside users %v", job.ID, job.UID, n.Name, n.Users)
		}
		if r.GPUsPerTask > 0 && !r.Exclusive && len(alloc.Devices) != int(alloc.Tasks*r.GPUsPerTask) {
			t.Fatalf("job %d has %d devices for %d tasks", job.ID, len(alloc.Devices), alloc.Tasks)
		}
		if len(n.Above) > 0 {
			leaves[alloc.Node] = n.Above[0].Name
		}
	}
	if len(oneOf) > 0 && !slices.Contains(oneOf, true) {
		t.Fatalf("job %d: its nodes have no feature in common of those it must", job.ID)
	}
	for i, group := range r.Constraint.Groups {
		if counted[i] < group.Count {
			t.Fatalf("job %d: %d nodes with %s, not %d", job.ID, counted[i], group.Of, group.Count)
		}
	}
	checkSwitches(t, nodes, job, shape, start, leaves)
}

func checkSwitches(t *testing.T, nodes []place.Node, job Job, shape Shape, start Start, leaves map[place.NodeIndex]string) {
	t.Helper()
	allocs := start.Placement.Allocs
	if len(allocs) < 2 || !nodes[0].Wired {
		return
	}
	distinct := make(map[string]bool)
	for _, leaf := range leaves {
		distinct[leaf] = true
	}
	waited := shape.SwitchesWaitS > 0 && job.AgeMS >= int64(shape.SwitchesWaitS)*1000
	if limit := int(shape.Request.Switches); limit > 0 && !waited && len(distinct) > limit {
		t.Fatalf("job %d is on %d switches, not %d", job.ID, len(distinct), limit)
	}
	common := slices.ContainsFunc(nodes[allocs[0].Node].Above, func(above *place.Switch) bool {
		return !slices.ContainsFunc(allocs, func(p place.Alloc) bool { return !slices.Contains(above.Nodes, p.Node) })
	})
	if !common {
		t.Fatalf("job %d is on nodes without a switch above them all", job.ID)
	}
}

// TestRequestKeyHasEverything: what a verdict depends on tells requests apart.
func TestRequestKeyHasEverything(t *testing.T) {
	var plain place.Request
	exempt := map[string]bool{"User": true, "ExclusiveUser": true} // on idle nodes there are no others
	kind := reflect.TypeOf(plain)
	for i := range kind.NumField() {
		changed := plain
		field := reflect.ValueOf(&changed).Elem().Field(i)
		switch name := kind.Field(i).Name; {
		case field.CanUint():
			field.SetUint(3)
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
		case field.Kind() == reflect.String:
			field.SetString("x")
		case field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf([]string{"x"}))
		case name == "Constraint":
			changed.Constraint.Each = place.Expression{{Feature: "x"}}
		default:
			t.Fatalf("field %s is of a new kind", name)
		}
		if same := string(requestKey(nil, 0, &changed)) == string(requestKey(nil, 0, &plain)); same != exempt[kind.Field(i).Name] {
			t.Errorf("field %s: the key is the same: %v", kind.Field(i).Name, same)
		}
	}
	a, b := plain, plain
	a.Constraint.Each, b.Constraint.OneOf = place.Expression{{Feature: "x"}}, []place.Expression{{{Feature: "x"}}}
	if string(requestKey(nil, 0, &a)) == string(requestKey(nil, 0, &b)) {
		t.Error("a constraint on each node and one of several have the same key")
	}
}

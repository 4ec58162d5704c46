package sched

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// This file has what dialogues say of where jobs land.

// linkUp links the devices within each range of "0-3,4-7".
func linkUp(n *place.Node, ranges string) {
	for _, domain := range list(ranges) {
		first, last, _ := strings.Cut(domain, "-")
		for i := number(first, 0); i <= number(last, 0); i++ {
			for other := number(first, 0); other <= number(last, 0); other++ {
				if other != i {
					n.Devices[i].Links = append(n.Devices[i].Links, place.DeviceIndex(other))
				}
			}
		}
	}
}

// forget drops the jobs on a node that is described again.
func (d *dialogue) forget(node place.NodeIndex) {
	d.snapshot.Running = slices.DeleteFunc(d.snapshot.Running, func(r Running) bool {
		return slices.ContainsFunc(r.Placement.Allocs, func(p place.Alloc) bool { return p.Node == node })
	})
}

// wire reads one switch.
func (d *dialogue) wire(words []string) error {
	o := options(words[1:])
	s := place.Switch{Name: words[0]}
	for _, name := range list(o["nodes"]) {
		at, known := d.find(name)
		if !known {
			return fmt.Errorf("no node %q", name)
		}
		s.Nodes = append(s.Nodes, place.NodeIndex(at))
	}
	for _, name := range list(o["above"]) {
		at := slices.IndexFunc(d.snapshot.Switches, func(s place.Switch) bool { return s.Name == name })
		if at < 0 {
			return fmt.Errorf("no switch %q", name)
		}
		below := d.snapshot.Switches[at]
		s.Level = max(s.Level, below.Level+1)
		s.Nodes = append(s.Nodes, below.Nodes...)
	}
	slices.Sort(s.Nodes)
	d.snapshot.Switches = append(d.snapshot.Switches, s)
	return nil
}

// placementFlags adds the options of where a job lands; what it answers puts
// them into the job and its shape once the line is read.
func placementFlags(set *flag.FlagSet, job *Job, shape *Shape) func(features string) error {
	r := &shape.Request
	counts := []struct {
		name  string
		field *uint32
	}{
		{"gpus-per-task", &r.GPUsPerTask}, {"ntasks-per-gpu", &r.TasksPerGPU}, {"cpus-per-gpu", &r.CPUsPerGPU},
		{"uid", &job.UID},
	}
	values := make([]*uint, len(counts))
	for i, count := range counts {
		values[i] = set.Uint(count.name, 0, "")
	}
	memory, switches := set.String("mem-per-gpu", "", ""), set.String("switches", "", "")
	set.BoolVar(&r.ExclusiveUser, "exclusive-user", false, "")
	set.BoolVar(&r.Contiguous, "contiguous", false, "")
	set.BoolVar(&r.MostNodes, "most-nodes", false, "")
	set.BoolVar(&r.EvenTasks, "even-tasks", false, "")
	return func(features string) error {
		for i, count := range counts {
			if *values[i] > 0 { // another flag may have set it
				*count.field = uint32(*values[i])
			}
		}
		r.MemoryPerGPU = size(*memory, 0)
		limit, wait, _ := strings.Cut(*switches, "@")
		r.Switches, shape.SwitchesWaitS = uint32(number(limit, 0)), uint32(number(wait, 0)*60)
		if features == "" {
			return nil
		}
		constraint, err := spec.ParseConstraint(features)
		r.Constraint = place.Constraint{Each: steps(constraint.Each)}
		for _, group := range constraint.Groups {
			r.Constraint.Groups = append(r.Constraint.Groups, place.Group{Count: group.Count, Of: steps(group.Of)})
		}
		for _, one := range constraint.OneOf {
			r.Constraint.OneOf = append(r.Constraint.OneOf, steps(one))
		}
		return err
	}
}

func steps(e spec.FeatureExpression) (out place.Expression) {
	for _, step := range e {
		op := map[byte]place.Op{0: place.Has, '!': place.Not, '&': place.And, '|': place.Or}[step.Op]
		out = append(out, place.Step{Op: op, Feature: step.Feature})
	}
	return out
}

// draw shows the nodes by switch, with their devices: its number if one is
// free, and the job that has it otherwise.
func (d *dialogue) draw() string {
	var out strings.Builder
	for i := range d.snapshot.Nodes {
		n := &d.snapshot.Nodes[i]
		words := []string{n.Name}
		for _, s := range d.snapshot.Switches {
			if s.Level == 0 && slices.Contains(s.Nodes, place.NodeIndex(i)) {
				words = append([]string{s.Name + ":"}, words...)
			}
		}
		words = append(words, "cpus "+strconv.Itoa(n.FreeCPUs.Count())+" of "+strconv.Itoa(n.CPUs.Count())+" free")
		if len(n.Devices) > 0 {
			words = append(words, "gpus")
		}
		for index := range n.Devices {
			words = append(words, d.holder(place.NodeIndex(i), place.DeviceIndex(index)))
		}
		out.WriteString(strings.Join(words, " ") + "\n")
	}
	return out.String()
}

func (d *dialogue) holder(node place.NodeIndex, device place.DeviceIndex) string {
	for _, running := range d.snapshot.Running {
		for _, alloc := range running.Placement.Allocs {
			held := slices.ContainsFunc(alloc.Devices, func(g place.Grant) bool { return g.Device == device })
			if alloc.Node == node && held {
				return fmt.Sprintf("<%d>", running.ID)
			}
		}
	}
	return strconv.Itoa(int(device))
}

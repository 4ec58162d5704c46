package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxSwitchLevels bounds the height of a tree of switches, because each of them
// has all nodes below it; networks have three or four.
const maxSwitchLevels = 16

// TopologySwitch is a switch with all nodes below it.
type TopologySwitch struct {
	Name  string
	Level uint32   // 0 = nodes are attached to it
	Nodes []string // ascending
}

// Topology are the switches with all nodes below each, leaves first.
func (p *Policy) Topology() []TopologySwitch { return p.topology }

// normalizeSwitches checks that the switches are trees, as topology.conf(5)
// wants them: a node is under one leaf, a switch under one switch, nothing
// under itself.
func (p *Policy) normalizeSwitches() error {
	if len(p.Switches) > bounds.MaxSwitches {
		return fmt.Errorf("%d switches are too many: at most %d", len(p.Switches), bounds.MaxSwitches)
	}
	p.Switches = slices.Clone(p.Switches)
	slices.SortFunc(p.Switches, func(a, b Switch) int { return cmp.Compare(a.Name, b.Name) })
	build := topologyBuild{policy: p, above: map[string]string{}, leaf: map[string]string{}, done: map[string]*TopologySwitch{}}
	for i := range p.Switches {
		if err := build.take(i); err != nil {
			return err
		}
	}
	p.topology = nil
	for i := range p.Switches {
		built, err := build.resolve(&p.Switches[i], nil)
		if err != nil {
			return err
		}
		p.topology = append(p.topology, *built)
	}
	slices.SortStableFunc(p.topology, func(a, b TopologySwitch) int { return cmp.Compare(a.Level, b.Level) })
	return nil
}

// topologyBuild is one look at the switches of a policy.
type topologyBuild struct {
	policy *Policy
	above  map[string]string // the switch that a switch is under
	leaf   map[string]string // the switch that a node is under
	done   map[string]*TopologySwitch
}

// take checks one switch and what it is next to.
func (b *topologyBuild) take(i int) error {
	s := &b.policy.Switches[i]
	switch {
	case !bounds.ValidName(s.Name):
		return fmt.Errorf("switch name %q: use letters, digits and -_. only", bounds.Clip(s.Name, bounds.MaxNameBytes))
	case i > 0 && b.policy.Switches[i-1].Name == s.Name:
		return fmt.Errorf("switch %s is there twice: leave one, with the nodes of both", s.Name)
	case (s.Nodes == "") == (len(s.Switches) == 0):
		return fmt.Errorf("switch %s: give it either nodes or switches, a host list such as n[1-4]", s.Name)
	}
	s.Switches = slices.Clone(s.Switches)
	slices.Sort(s.Switches)
	for i, below := range s.Switches {
		if i > 0 && s.Switches[i-1] == below {
			return fmt.Errorf("switch %s: switches: %s is named twice", s.Name, below)
		}
		if _, known := b.find(below); !known {
			return fmt.Errorf("switch %s: there is no switch %q: add it as [[switch]], or leave it out of switches", s.Name, bounds.Clip(below, bounds.MaxNameBytes))
		}
		if other := b.above[below]; other != "" {
			return fmt.Errorf("switch %s is under two switches, %s and %s: leave it under one of them", below, other, s.Name)
		}
		b.above[below] = s.Name
	}
	if s.Nodes == "" {
		return nil
	}
	names, err := spec.ParseHostList(s.Nodes)
	if err != nil {
		return fmt.Errorf("switch %s: nodes: %w", s.Name, err)
	}
	if len(names) == 0 {
		return fmt.Errorf("switch %s: give it either nodes or switches, a host list such as n[1-4]", s.Name)
	}
	s.Nodes = spec.FormatHostList(names)
	slices.Sort(names)
	for _, name := range names {
		if !spec.ValidHostName(name) {
			return fmt.Errorf("switch %s: node name %q is not a host name", s.Name, bounds.Clip(name, bounds.MaxNameBytes))
		}
		if other := b.leaf[name]; other != "" {
			return fmt.Errorf("node %s is under two leaf switches, %s and %s: leave it under one of them", name, other, s.Name)
		}
		b.leaf[name] = s.Name
	}
	if len(b.leaf) > bounds.MaxNodesPerCommand {
		return fmt.Errorf("the switches have more than %d nodes: name fewer", bounds.MaxNodesPerCommand)
	}
	b.done[s.Name] = &TopologySwitch{Name: s.Name, Nodes: names}
	return nil
}

func (b *topologyBuild) find(name string) (*Switch, bool) {
	at, found := slices.BinarySearchFunc(b.policy.Switches, name, func(s Switch, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return nil, false
	}
	return &b.policy.Switches[at], true
}

// resolve finds all that is below a switch. path is the switches above it.
func (b *topologyBuild) resolve(s *Switch, path []string) (*TopologySwitch, error) {
	if built := b.done[s.Name]; built != nil {
		return built, nil
	}
	if at := slices.Index(path, s.Name); at >= 0 {
		return nil, fmt.Errorf("the switches %s are under each other in a circle: take one of them out of the switches of another", strings.Join(path[at:], ", "))
	}
	if len(path) == maxSwitchLevels {
		return nil, fmt.Errorf("switch %s is under %d others: at most %d levels of switches can be", s.Name, len(path), maxSwitchLevels)
	}
	built := &TopologySwitch{Name: s.Name}
	for _, name := range s.Switches {
		below, _ := b.find(name)
		inner, err := b.resolve(below, append(path, s.Name))
		if err != nil {
			return nil, err
		}
		built.Level = max(built.Level, inner.Level+1)
		built.Nodes = append(built.Nodes, inner.Nodes...)
	}
	slices.Sort(built.Nodes)
	b.done[s.Name] = built
	return built, nil
}

// Switch is one switch of the network (topology.conf(5)): it has nodes, or
// switches below it.
type Switch struct {
	Name     string   `cbor:"1,keyasint"`
	Nodes    string   `cbor:"2,keyasint,omitempty"` // host list
	Switches []string `cbor:"3,keyasint,omitempty"` // ascending
}

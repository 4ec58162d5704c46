package control

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// switchRow is a switch of the network with all nodes below it.
type switchRow struct {
	Name     string   `json:"name"`
	Level    uint32   `json:"level"` // 0 = nodes are attached to it
	Nodes    []string `json:"nodes"`
	Switches []string `json:"switches"`
}

// showTopology prints the switches as "scontrol show topology" does: all, the
// one of a name, or those above a node, or above all of several nodes.
func showTopology(c *controlRun, id string) error {
	config, err := client.AskOne(c.inv.Context, c.client, c.client.ShowConfig, &pb.ShowConfigRequest{})
	if err != nil {
		return client.LoadError(c.inv, client.LoadTopology, err)
	}
	switches := switchRows(config.GetPolicy().GetSwitches())
	if id != "" {
		switches = switchesFor(switches, id)
	}
	switch {
	case len(switches) == 0 && id != "":
		return c.inv.Fail("Topology information contains no switch or node named %s", id)
	case c.json != show.JSONNone:
		return show.WriteJSON(c.inv, c.json, "topology", switches)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	if len(switches) == 0 {
		fmt.Fprintln(out, "No topology information available")
	}
	for _, s := range switches {
		items := []string{show.Item("SwitchName", s.Name), show.Item("Level", show.Digits(s.Level)), "LinkSpeed=1", show.Item("Nodes", spec.FormatHostList(s.Nodes))}
		if len(s.Switches) > 0 {
			items = append(items, show.Item("Switches", spec.FormatHostList(s.Switches)))
		}
		r := &show.Record{}
		r.Line(items...)
		r.Write(out, true)
	}
	return out.Flush()
}

// switchesFor are the switch called id, or those above all nodes of the list.
func switchesFor(switches []switchRow, id string) []switchRow {
	if at := slices.IndexFunc(switches, func(s switchRow) bool { return s.Name == id }); at >= 0 {
		return switches[at : at+1]
	}
	names, err := spec.ParseHostList(id)
	if err != nil || len(names) == 0 {
		return nil
	}
	return slices.DeleteFunc(switches, func(s switchRow) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.Nodes, name) })
	})
}

// switchRows finds the nodes below each switch. Leaves come first, and switches
// of one level by name.
func switchRows(given []*pb.Switch) []switchRow {
	rows := make([]switchRow, 0, len(given))
	known := make(map[string]int)
	for _, s := range given {
		nodes, nodesErr := spec.ParseHostList(s.GetNodes())
		below, belowErr := spec.ParseHostList(s.GetSwitches())
		if cmp.Or(nodesErr, belowErr) != nil {
			continue // a controller has checked them
		}
		known[s.GetName()] = len(rows)
		rows = append(rows, switchRow{Name: s.GetName(), Nodes: append([]string{}, nodes...), Switches: append([]string{}, below...)})
	}
	done := make([]bool, len(rows))
	for i := range rows {
		fillSwitch(rows, known, done, i)
	}
	slices.SortStableFunc(rows, func(a, b switchRow) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// fillSwitch adds what is below the switches under one. done also ends it where
// an answer has them in a circle.
func fillSwitch(rows []switchRow, known map[string]int, done []bool, i int) {
	if done[i] {
		return
	}
	done[i] = true
	for _, name := range rows[i].Switches {
		at, is := known[name]
		if !is {
			continue
		}
		fillSwitch(rows, known, done, at)
		rows[i].Level = max(rows[i].Level, rows[at].Level+1)
		rows[i].Nodes = append(rows[i].Nodes, rows[at].Nodes...)
	}
	slices.Sort(rows[i].Nodes)
	rows[i].Nodes = slices.Compact(rows[i].Nodes)
}

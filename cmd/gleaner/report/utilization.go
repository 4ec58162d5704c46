package report

import (
	"bufio"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// This file is "cluster Utilization": what the nodes had, and how much of it ran jobs, was
// down or idle. The nodes are those of now, as if they had been there all the time.

// part is what the cluster had of one resource, in amounts times milliseconds.
type part struct {
	tres                      string
	allocated, down, reported uint64
}

// idle is the rest. What a node that was drained still ran counts as allocated.
func (p *part) idle() uint64 {
	return p.reported - min(p.reported, p.allocated+p.down)
}

// utilizationTRES are those that nodes have, in order.
var utilizationTRES = []string{"cpu", "mem", "node", "gres/gpu"}

// capacity is what a node has of a resource, mem in MiB.
func capacity(node *pb.Node, tres string) uint64 {
	switch inventory := node.GetInventory(); tres {
	case "cpu":
		return uint64(inventory.GetCpus())
	case "mem":
		return inventory.GetMemoryBytes() >> 20
	case "node":
		return 1
	case "gres/gpu":
		return uint64(len(inventory.GetDevices()))
	}
	model, isGPU := strings.CutPrefix(tres, "gres/gpu:")
	count := uint64(0)
	for _, device := range node.GetInventory().GetDevices() {
		if isGPU && device.GetModel() == model {
			count++
		}
	}
	return count
}

// reported is what all nodes had in the time that can be counted, in milliseconds.
func (r *request) reported(nodes []*pb.Node, tres string) (amount uint64) {
	ms := uint64(max(r.counted().Sub(r.since).Milliseconds(), 0))
	for _, node := range nodes {
		amount += capacity(node, tres) * ms
	}
	return amount
}

// utilization asks for what the report needs, and adds it up.
func (r *request) utilization(inv *option.Invocation, controllers *client.Client, used sums) ([]part, error) {
	nodes, err := controllers.Nodes(inv.Context, &pb.ListNodesRequest{})
	if err != nil {
		return nil, client.LoadError(inv, "slurm_load_nodes", err)
	}
	events, err := past.Events(inv, controllers, &pb.ListNodeEventsRequest{SinceMs: r.since.UnixMilli(), UntilMs: r.until.UnixMilli()})
	if err != nil {
		return nil, past.Failed(inv, err)
	}
	return r.parts(nodes, events, used), nil
}

// parts adds up. Nodes that nothing is known of yet have nothing.
func (r *request) parts(nodes []*pb.Node, events []*pb.NodeEvent, used sums) []part {
	byName := map[string]*pb.Node{}
	for _, node := range nodes {
		byName[node.GetName()] = node
	}
	since, until := r.since.UnixMilli(), r.counted().UnixMilli()
	var parts []part
	for _, tres := range utilizationTRES {
		if !slices.Contains(r.tres, "ALL") && !slices.Contains(r.tres, tres) {
			continue
		}
		one := part{tres: tres, reported: r.reported(nodes, tres)}
		for k, amount := range used {
			if k.owner == "" && k.tres == tres {
				one.allocated += amount
			}
		}
		for _, event := range events {
			end := event.GetEndMs()
			if end == 0 {
				end = until
			}
			if inside := min(end, until) - max(event.GetStartMs(), since); inside > 0 {
				one.down += capacity(byName[event.GetNode()], tres) * uint64(inside)
			}
		}
		one.allocated = min(one.allocated, one.reported)
		one.down = min(one.down, one.reported-one.allocated)
		parts = append(parts, one)
	}
	return parts
}

// utilizationColumns are those of sreport, with their widths.
var utilizationColumns = []struct {
	name  string
	value func(*part) uint64
}{
	{"Allocated", func(p *part) uint64 { return p.allocated }},
	{"Down", func(p *part) uint64 { return p.down }},
	{"PLND Down", func(*part) uint64 { return 0 }},
	{"Idle", (*part).idle},
	{"Planned", func(*part) uint64 { return 0 }},
	{"Reported", func(p *part) uint64 { return p.reported }},
}

func (r *request) printUtilization(inv *option.Invocation, shape show.JSONShape, parts []part) error {
	if shape != show.JSONNone {
		return r.utilizationJSON(inv, shape, parts)
	}
	out := bufio.NewWriter(inv.Stdout)
	columns := r.columns()
	put := r.putter(out, inv, columns)
	if !inv.Given("noheader") {
		names := make([]string, 0, len(utilizationColumns))
		for _, c := range utilizationColumns {
			names = append(names, c.name)
		}
		r.head(out, inv, columns, names, put)
	}
	for i := range parts {
		values := r.values(columns, key{cluster: r.cluster, tres: parts[i].tres})
		for _, c := range utilizationColumns {
			values = append(values, r.amount(c.value(&parts[i]), parts[i].reported))
		}
		put(values)
	}
	return console.Output(out.Flush())
}

// utilizationJSON has seconds.
func (r *request) utilizationJSON(inv *option.Invocation, shape show.JSONShape, parts []part) error {
	type line struct {
		TRES      string `json:"tres"`
		Allocated uint64 `json:"allocated"`
		Down      uint64 `json:"down"`
		Idle      uint64 `json:"idle"`
		Reported  uint64 `json:"reported"`
	}
	lines := make([]line, len(parts))
	for i, p := range parts {
		lines[i] = line{p.tres, p.allocated / 1000, p.down / 1000, p.idle() / 1000, p.reported / 1000}
	}
	return show.WriteJSON(inv, shape, "utilization", lines)
}

// Package info is ginfo, Slurm's sinfo: it chooses partitions, nodes and columns,
// and prints them once or again and again.
//
// The columns themselves, and nodes as JSON, are package show.
package info

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// infoRun is one call of ginfo.
type infoRun struct {
	inv     *option.Invocation
	client  *client.Client
	choice  *nodeChoice
	layout  *format.Layout[*show.NodeRow]
	less    func(a, b *show.NodeRow) int
	json    show.JSONShape
	explain bool // say which nodes pretend, after the longest table
	// cluster is its name, if --clusters was given: a line above the header.
	cluster string
}

func runInfo(inv *option.Invocation) error {
	if err := console.FillFromEnvironment(inv); err != nil {
		return err
	}
	run, everyS, err := newInfoRun(inv)
	if err != nil {
		return err
	}
	if run.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer run.client.Close()
	if run.cluster, err = run.client.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	return console.Repeat(inv, everyS, run.once)
}

func newInfoRun(inv *option.Invocation) (run *infoRun, everyS int, err error) {
	if len(inv.Operands) > 0 {
		return nil, 0, inv.Fail("Unrecognized option: %s", inv.Operands[0])
	}
	run = &infoRun{inv: inv}
	// Whoever chooses the columns, or leaves out the header, reads the output
	// with a program.
	run.explain = inv.Given("long") && !inv.Given("noheader") && !inv.Given("format") && !inv.Given("Format")
	if run.json, err = show.JSONShapeOf(inv); err != nil {
		return nil, 0, err
	}
	if everyS, err = console.IterateSeconds(inv); err != nil {
		return nil, 0, err
	}
	if run.choice, err = chooseNodes(inv); err != nil {
		return nil, 0, err
	}
	if run.layout, err = infoLayout(inv); err != nil {
		return nil, 0, err
	}
	// By default lines stay in the order of the partitions, as #P asks for.
	order := "-t"
	if inv.Given("Node") {
		order = "N"
	}
	if run.less, err = show.NodeTable.ParseSort(cmp.Or(inv.Text("sort"), order)); err != nil {
		return nil, 0, inv.Fail("Invalid sort specification: %w", err)
	}
	return run, everyS, nil
}

// infoLayout chooses the columns.
func infoLayout(inv *option.Invocation) (*format.Layout[*show.NodeRow], error) {
	if inv.Given("format") && inv.Given("Format") {
		return nil, inv.Fail("-o (--format) and -O (--Format) cannot be used together")
	}
	if inv.Given("Format") {
		layout, err := show.NodeTable.ParseLong(inv.Text("Format"))
		return layout, console.FormatError(inv, "node", err)
	}
	long, shape := inv.Given("long"), infoFormat
	switch {
	case inv.Given("format"):
		shape = inv.Text("format")
	case inv.Given("list-reasons") && long:
		shape = infoLongReason
	case inv.Given("list-reasons"):
		shape = infoReasonFormat
	case inv.Given("summarize"):
		shape = infoSummaryFormat
	case inv.Given("Node") && long:
		shape = infoLongNodeFormat
	case inv.Given("Node"):
		shape = infoNodeFormat
	case long:
		shape = infoLongFormat
	}
	if inv.Command.CalledAs != "" { // what sinfo(1) prints ends with NODELIST, and scripts count on it
		shape = strings.TrimSuffix(shape, infoGPUs)
	}
	layout, err := show.NodeTable.ParseShort(shape)
	return layout, console.FormatError(inv, "node", err)
}

// once lists the nodes and prints them.
func (run *infoRun) once(ctx context.Context, now time.Time) error {
	view := show.NewView(run.inv.Getenv, now)
	if run.inv.Given("reservation") {
		return run.reservations(ctx, view)
	}
	partitions, err := run.client.Partitions(ctx)
	if err != nil {
		return client.LoadError(run.inv, client.LoadPartitions, err)
	}
	nodes, err := run.client.Nodes(ctx, &pb.ListNodesRequest{})
	if err != nil {
		return client.LoadError(run.inv, client.LoadNodes, err)
	}
	show.SortNodes(nodes)
	partitions = slices.DeleteFunc(partitions, func(p *pb.Partition) bool { return !run.choice.wantsPartition(p.Name) })
	all := slices.Clone(nodes)
	nodes = slices.DeleteFunc(nodes, func(n *pb.Node) bool { return !run.choice.wants(n) })
	if run.json != show.JSONNone {
		return console.Output(run.writeJSON(partitions, nodes, all, view))
	}
	return run.print(run.rows(partitions, nodes, view), now)
}

// reservations lists the reservations in place of the nodes.
func (run *infoRun) reservations(ctx context.Context, view *show.View) error {
	listed, err := client.AskOne(ctx, run.client, run.client.ListReservations, &pb.ListReservationsRequest{})
	if err != nil {
		return client.LoadError(run.inv, client.LoadReservations, err)
	}
	if run.json == show.JSONNone {
		return console.Output(show.WriteReservationTable(run.inv.Stdout, listed.GetReservations(), view, !run.inv.Given("noheader")))
	}
	var records []*show.ReservationJSON
	for _, r := range listed.GetReservations() {
		records = append(records, run.json.Reservation(r))
	}
	return console.Output(show.WriteJSON(run.inv, run.json, "reservations", records))
}

// rows groups the nodes into lines, partition by partition.
func (run *infoRun) rows(partitions []*pb.Partition, nodes []*pb.Node, view *show.View) []*show.NodeRow {
	single := run.inv.Given("Node")
	lines := show.NewGrouping(run.layout, run.inv.Given("exact"), single)
	for _, partition := range partitions {
		found := false
		for _, node := range nodes {
			if show.MemberOf(node, partition.Name) {
				lines.Add(partition, node, view)
				found = true
			}
		}
		if !found && !single && !run.choice.filtering() && run.showsPartitions() {
			lines.Add(partition, nil, view)
		}
	}
	if len(run.choice.partitions) == 0 {
		for _, node := range nodes {
			if len(node.Partitions) == 0 {
				lines.Add(nil, node, view)
			}
		}
	}
	if single || run.inv.Given("sort") {
		slices.SortStableFunc(lines.Rows, run.less)
		return lines.Rows
	}
	return run.sortWithin(lines.Rows)
}

// showsPartitions reports whether a line without nodes still says something.
func (run *infoRun) showsPartitions() bool {
	return run.layout.Has("Partition") || run.layout.Has("PartitionName")
}

// sortWithin sorts the lines of each partition and leaves the partitions in
// their order.
func (run *infoRun) sortWithin(rows []*show.NodeRow) []*show.NodeRow {
	for begin := 0; begin < len(rows); {
		end := begin
		for end < len(rows) && rows[end].Partition == rows[begin].Partition {
			end++
		}
		slices.SortStableFunc(rows[begin:end], run.less)
		begin = end
	}
	return rows
}

func (run *infoRun) print(rows []*show.NodeRow, now time.Time) error {
	out := bufio.NewWriterSize(run.inv.Stdout, 64<<10)
	if run.inv.Given("iterate") || run.inv.Given("long") {
		fmt.Fprintln(out, now.Format(console.DateLine))
	}
	if run.cluster != "" && !run.inv.Given("noheader") {
		fmt.Fprintf(out, "CLUSTER: %s\n", run.cluster)
	}
	run.layout.Fit(rows)
	var line []byte
	if !run.inv.Given("noheader") {
		line = run.layout.Header(line)
	}
	for _, row := range rows {
		line = run.layout.Row(line, row)
		_, _ = out.Write(line) // a bufio.Writer keeps its error for Flush
		line = line[:0]
	}
	_, _ = out.Write(line)
	if err := out.Flush(); err != nil {
		return console.Output(err)
	}
	if run.explain {
		run.explainPretence(rows)
	}
	return nil
}

// explainPretence says under the table of --long, on standard error and so out of
// the way of programs, which nodes offer more than they have. The plain table has
// only what sinfo has; "gcontrol show node" says it, too.
func (run *infoRun) explainPretence(rows []*show.NodeRow) {
	type counts struct{ promised, real uint32 }
	names, seen := map[counts][]string{}, map[string]bool{}
	var order []counts
	for _, row := range rows {
		for _, node := range row.Nodes {
			if !show.Pretends(node) || seen[node.Name] {
				continue
			}
			seen[node.Name] = true
			key := counts{node.Inventory.Cpus, node.Inventory.RealCpus}
			if names[key] == nil {
				order = append(order, key)
			}
			names[key] = append(names[key], node.Name)
		}
	}
	for _, key := range order {
		fmt.Fprintln(run.inv.Stderr, show.Pretence(spec.FormatHostList(names[key]), key.promised, key.real))
	}
}

package lend

import (
	"bufio"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// lendNodes is glend.
func lendNodes(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	if len(inv.Operands) > 0 && inv.Operands[0] == "report" {
		return report(inv, shape)
	}
	if len(inv.Operands) > 0 && inv.Operands[0] == "habit" {
		return habit(inv, shape)
	}
	request, err := requestOf(inv)
	if err != nil {
		return err
	}
	nodes, err := ask(inv, request)
	if err != nil {
		return err
	}
	return console.Output(print(inv, shape, nodes, request))
}

// requestOf is what the command line asks for.
func requestOf(inv *option.Invocation) (*pb.SetLendingRequest, error) {
	if inv.Given("since") || inv.Given("until") {
		return nil, inv.Fail("--since and --until are for glend report")
	}
	request := &pb.SetLendingRequest{RequestId: uuid.NewString(), Lending: &pb.Lending{}, FromDefault: inv.Given("reset"), DryRun: inv.Given("dry-run")}
	if err := readTerms(inv, request); err != nil {
		return nil, err
	}
	if !sets(request) && request.DryRun {
		return nil, inv.Fail("--dry-run shows what terms would be: name some, as in --notice=2m, or leave it out to see those in force")
	}
	if !sets(request) && len(inv.Operands) == 0 {
		return request, nil
	}
	var err error
	request.Names, err = console.NodesOrMine(inv)
	return request, err
}

// sets reports whether a request sets anything, or only asks.
func sets(request *pb.SetLendingRequest) bool {
	return request.FromDefault || len(request.Settings) > 0
}

// ask does what is asked, and returns the nodes.
func ask(inv *option.Invocation, request *pb.SetLendingRequest) ([]*pb.Node, error) {
	controller, err := client.Connect(inv)
	if err != nil {
		return nil, err
	}
	defer controller.Close()
	if !sets(request) && request.Names != "" {
		nodes, err := controller.Nodes(inv.Context, &pb.ListNodesRequest{Names: request.Names})
		if err != nil {
			return nil, client.LoadError(inv, client.LoadNodes, err)
		}
		return nodes, unknownNode(request.Names, nodes)
	}
	dry := request.DryRun
	request.DryRun = dry || !sets(request)
	answer, err := client.Call(inv.Context, controller, controller.SetLending, request)
	request.DryRun = dry
	if err != nil {
		return nil, option.Fail(1, "Lend error: %s", client.Describe(err))
	}
	return answer.GetNodes(), nil
}

// unknownNode refuses a list that names a node which is not there.
func unknownNode(list string, nodes []*pb.Node) error {
	names, err := spec.ParseHostList(list)
	if err != nil {
		return option.Fail(1, "Invalid node name specified: %w", err)
	}
	known := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		known[node.GetName()] = true
	}
	for _, name := range names {
		if !known[name] {
			return option.Fail(1, "Lend error: Node %s not found", name)
		}
	}
	return nil
}

// print prints the nodes with their terms.
func print(inv *option.Invocation, shape show.JSONShape, nodes []*pb.Node, request *pb.SetLendingRequest) error {
	show.SortNodes(nodes)
	now := console.Clock()
	view := show.NewView(inv.Getenv, now)
	rows := make([]*show.LendingRow, 0, len(nodes))
	for _, node := range nodes {
		if request.FromDefault || slices.Contains(request.Settings, "time_zone") {
			show.FollowHours(node, now)
		}
		rows = append(rows, show.LendingRowOf(node, view, now))
	}
	if shape != show.JSONNone {
		records := make([]*show.LendingJSON, 0, len(rows))
		for _, row := range rows {
			records = append(records, show.LendingJSONOf(row, now))
		}
		return show.WriteJSON(inv, shape, "lending", records)
	}
	layout, err := show.LendingTable.ParseShort("%#N %#o %#l %#u %#n %#g %#a %#I %#m %#t %#w %#i %#W %#p %#x %#k %h")
	if err != nil {
		return err
	}
	layout.Fit(rows)
	out := bufio.NewWriter(inv.Stdout)
	_, _ = out.Write(layout.Header(nil)) // a bufio.Writer keeps its error for Flush
	for _, row := range rows {
		_, _ = out.Write(layout.Row(nil, row))
	}
	if request.DryRun {
		fmt.Fprintln(out, "nothing was done: --dry-run")
	}
	return out.Flush()
}

package lend

import (
	"bufio"
	"slices"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// habit is glend habit: what was learned of how owners take their nodes back.
func habit(inv *option.Invocation, shape show.JSONShape) error {
	for _, long := range slices.Concat(settingOptions, []string{"since", "until"}) {
		if inv.Given(long) {
			return inv.Fail("--%s is of no use to glend habit, which only shows: leave it out", long)
		}
	}
	inv.Operands = inv.Operands[1:]
	request := &pb.SetLendingRequest{RequestId: uuid.NewString(), Lending: &pb.Lending{}}
	if len(inv.Operands) > 0 || inv.Given("mine") {
		var err error
		if request.Names, err = console.NodesOrMine(inv); err != nil {
			return err
		}
	}
	nodes, err := ask(inv, request)
	if err != nil {
		return err
	}
	show.SortNodes(nodes)
	if shape != show.JSONNone {
		records := make([]*show.HabitJSON, 0, len(nodes))
		for _, node := range nodes {
			records = append(records, show.HabitJSONOf(node))
		}
		return console.Output(show.WriteJSON(inv, shape, "habits", records))
	}
	out, view := bufio.NewWriter(inv.Stdout), show.NewView(inv.Getenv, console.Clock())
	for _, node := range nodes {
		_, _ = out.WriteString(format.PrintableLines(show.HabitText(node, view))) // a bufio.Writer keeps its error for Flush
	}
	return console.Output(out.Flush())
}

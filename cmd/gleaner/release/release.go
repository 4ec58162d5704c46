// Package release is grelease: an owner lends reclaimed nodes again. Guests that are
// parked there continue when what they had is free.
package release

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/local"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Command is the table of grelease.
func Command() *option.Command {
	return &option.Command{
		Name: "release", Standalone: true, Summary: "lend nodes again that you reclaimed", Usage: "[options] nodes | --mine | --local",
		Description: []string{
			"grelease ends the reclaim of nodes (greclaim). Guests that are parked there continue where they stood, each when its GPUs and CPUs are free: jobs of the owner that run there are not touched. Then other jobs start there again.",
			"Those who may reclaim a node may release it. A node that is not reclaimed is no error.",
			"With --local grelease speaks to the gnoded of the machine on which it is typed, and to no controller (greclaim --local). Guests that no controller has stopped continue at once. The others wait for the controllers, which end their own reclaim of the node as soon as they hear of it.",
		},
		Operands: []option.Variable{{Name: "nodes", Help: "the nodes, as in n1 or n[1-4]"}},
		Options: []option.Option{
			{Long: "mine", Help: "all reclaimed nodes of the accounts that you coordinate"},
			local.Option("the node on which you type, without asking a controller"),
			{Long: "quiet", Short: 'q', Help: "print errors only"},
			show.JSONOption(),
			show.YAMLOption(),
		},
		Examples: []option.Example{
			{Text: "lend a node again", Command: "grelease n1"},
			{Text: "lend all my nodes again", Command: "grelease --mine"},
			{Text: "on the node itself, whether or not a controller can be reached", Command: "grelease --local"},
		},
		Variables: []option.Variable{local.Variable()},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the nodes are lent; also those that were not reclaimed"},
			{Status: "1", Help: "refused, or no controller answers"},
		},
		SeeAlso: []string{"greclaim", "ginfo", "gqueue"},
		Run:     releaseNodes,
	}
}

// releaseNodes is grelease.
func releaseNodes(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	ask := askControllers
	if inv.Given("local") {
		ask = askNode
	}
	nodes, names, err := ask(inv)
	if err != nil {
		return err
	}
	show.SortNodes(nodes)
	switch {
	case shape != show.JSONNone:
		records := make([]*show.ReclaimJSON, 0, len(nodes))
		for _, node := range nodes {
			if record := show.ReclaimJSONOf(node.Name, node.Reclaim); record != nil {
				records = append(records, record)
			}
		}
		return console.Output(show.WriteJSON(inv, shape, "released", records))
	case inv.Given("quiet"):
		return nil
	}
	return console.Output(printReleased(inv, nodes, names))
}

func askControllers(inv *option.Invocation) (nodes []*pb.Node, names string, err error) {
	if names, err = console.NodesOrMine(inv); err != nil {
		return nil, "", err
	}
	controller, err := client.Connect(inv)
	if err != nil {
		return nil, "", err
	}
	defer controller.Close()
	request := &pb.ReleaseNodesRequest{RequestId: uuid.NewString(), Names: names}
	answer, err := client.Call(inv.Context, controller, controller.ReleaseNodes, request)
	if err != nil {
		return nil, "", option.Fail(1, "Release error: %s", client.Describe(err))
	}
	return answer.GetNodes(), names, nil
}

// askNode releases the node on which the command is typed.
func askNode(inv *option.Invocation) (nodes []*pb.Node, names string, err error) {
	if names, err = local.Names(inv); err != nil {
		return nil, "", err
	}
	node, err := local.Connect(inv, names)
	if err != nil {
		return nil, "", err
	}
	defer node.Close()
	answer, err := node.Release(inv.Context, &pb.ReleaseNodesRequest{RequestId: uuid.NewString(), Names: names})
	if err != nil {
		return nil, "", option.Fail(1, "Release error: %s", client.Describe(err))
	}
	return answer.GetNodes(), names, nil
}

func printReleased(inv *option.Invocation, nodes []*pb.Node, asked string) error {
	out := bufio.NewWriter(inv.Stdout)
	for _, node := range nodes {
		fmt.Fprintln(out, format.Printable(node.Name+": lent again"+parkedText(node.GetReclaim())))
	}
	switch {
	case len(nodes) == 0 && asked == "":
		fmt.Fprintln(out, "none of your nodes was reclaimed")
	case len(nodes) == 0:
		fmt.Fprintf(out, "%s was not reclaimed\n", asked)
	}
	return out.Flush()
}

// parkedText names the guests that were parked.
func parkedText(reclaim *pb.Reclaim) string {
	const few = 8
	var parked []string
	more := 0
	for _, guest := range reclaim.GetGuests() {
		switch {
		case guest.GetFate() != pb.GuestFate_GUEST_FATE_PARK:
		case len(parked) == few:
			more++
		default:
			parked = append(parked, show.GuestText(guest))
		}
	}
	if len(parked) == 0 {
		return ""
	}
	text := strings.Join(parked, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	verb := "continues when what it had is free"
	if len(parked) > 1 {
		verb = "continue when what they had is free"
	}
	return "; " + text + " " + verb
}

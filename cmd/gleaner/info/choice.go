package info

import (
	"maps"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// nodeChoice is which nodes were asked for.
type nodeChoice struct {
	partitions []string        // empty = all
	names      map[string]bool // nil = all
	states     [][]nodeTest    // one of them must hold whole; empty = all
	dead       bool            // only silent nodes
	responding bool            // only the others
	reasons    bool            // only nodes that are drained or down
}

// nodeTest reports whether a node is in a state.
type nodeTest func(*pb.Node) bool

// nodeStates are the words of --states. Those of Slurm's that no node is ever
// in here match nothing.
var nodeStates = func() map[string]nodeTest {
	is := func(word string) nodeTest { return func(n *pb.Node) bool { return show.LongState(n) == word } }
	states := map[string]nodeTest{
		"idle": is("idle"), "alloc": is("allocated"), "allocated": is("allocated"), "mix": is("mixed"), "mixed": is("mixed"),
		"down":  func(n *pb.Node) bool { return n.State == pb.NodeState_NODE_STATE_DOWN },
		"drain": func(n *pb.Node) bool { return n.Drain }, "drained": is("drained"), "draining": is("draining"), "drng": is("draining"),
		"unk": is("unknown"), "unknown": is("unknown"),
		"reclaimed":  func(n *pb.Node) bool { return n.Reclaim != nil },
		"maint":      func(n *pb.Node) bool { return n.Maintenance },
		"resv":       func(n *pb.Node) bool { return n.Reservation != "" },
		"reserved":   func(n *pb.Node) bool { return n.Reservation != "" },
		"no_respond": func(n *pb.Node) bool { return n.NotResponding },
	}
	for _, word := range []string{"cloud", "comp", "completing", "fail", "future", "futr", "npc", "perfctrs", "planned", "plnd",
		"power_down", "powering_down", "powered_down", "powering_up", "reboot_issued", "reboot_requested", "error", "inval"} {
		states[word] = func(*pb.Node) bool { return false }
	}
	return states
}()

func chooseNodes(inv *option.Invocation) (*nodeChoice, error) {
	choice := &nodeChoice{
		partitions: inv.List("partition"), dead: inv.Given("dead"), responding: inv.Given("responding"), reasons: inv.Given("list-reasons"),
	}
	for _, text := range inv.All("nodes") {
		names, err := spec.ParseHostList(text)
		if err != nil {
			return nil, inv.Fail("'%s' invalid entry for --nodes: %w", text, err)
		}
		if choice.names == nil {
			choice.names = map[string]bool{}
		}
		for _, name := range names {
			choice.names[name] = true
		}
	}
	for _, alternative := range inv.List("states") {
		if strings.EqualFold(alternative, "all") {
			choice.states = nil
			break
		}
		var tests []nodeTest
		for word := range strings.SplitSeq(alternative, "&") {
			test, err := nodeStateTest(inv, strings.TrimRight(strings.TrimSpace(word), "*"))
			if err != nil {
				return nil, err
			}
			tests = append(tests, test)
		}
		choice.states = append(choice.states, tests)
	}
	return choice, nil
}

// nodeStateTest finds a word of --states; the beginning of one will do.
func nodeStateTest(inv *option.Invocation, word string) (nodeTest, error) {
	word = strings.ToLower(word)
	if test, known := nodeStates[word]; known {
		return test, nil
	}
	names := slices.Sorted(maps.Keys(nodeStates))
	if at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, word) }); at >= 0 && word != "" {
		return nodeStates[names[at]], nil
	}
	return nil, inv.Fail("Bad state string: \"%s\"\nvalid states: %s", word, strings.Join(names, ","))
}

// filtering reports whether lines without nodes are to be left out.
func (c *nodeChoice) filtering() bool {
	return len(c.states) > 0 || c.dead || c.responding || c.reasons
}

func (c *nodeChoice) wantsPartition(name string) bool {
	return len(c.partitions) == 0 || slices.Contains(c.partitions, name)
}

func (c *nodeChoice) wants(node *pb.Node) bool {
	switch {
	case c.names != nil && !c.names[node.Name],
		c.dead && !node.NotResponding,
		c.responding && node.NotResponding,
		c.reasons && (node.Reason == "" || !node.Drain && node.State != pb.NodeState_NODE_STATE_DOWN):
		return false
	}
	if len(c.states) == 0 {
		return true
	}
	return slices.ContainsFunc(c.states, func(tests []nodeTest) bool {
		return !slices.ContainsFunc(tests, func(test nodeTest) bool { return !test(node) })
	})
}

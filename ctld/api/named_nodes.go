package api

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkNamedNodes refuses a job on a node that has never registered: the name
// is most likely misspelled, and the job would wait forever. Before the first
// node has registered nothing is known, and everything waits.
func checkNamedNodes(view *state.View, shape *state.Shape) error {
	if name := unknownNode(view, shape.Request.RequiredNodes); name != "" {
		return invalid("Invalid node name specified: there is no node %s; there are %s", name, knownNodes(view))
	}
	return nil
}

// excludedWarning warns of excluded nodes that do not exist; "" if all do.
func excludedWarning(view *state.View, shape *state.Shape) string {
	name := unknownNode(view, shape.Request.ExcludedNodes)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("--exclude names %s, which is no node: there are %s", name, knownNodes(view))
}

// unknownNode is the first name of which no node has registered; "" if there
// is none, or no node at all.
func unknownNode(view *state.View, names []string) string {
	for _, name := range names {
		if _, known := view.Node(name); !known && knownNodes(view) != "" {
			return name
		}
	}
	return ""
}

// knownNodes are the nodes that have registered, a few of them.
func knownNodes(view *state.View) string {
	const few = 12
	var names []string
	for node := range view.Nodes() {
		if len(names) == few {
			return spec.FormatHostList(names) + " and others"
		}
		names = append(names, node.Name)
	}
	return spec.FormatHostList(names)
}

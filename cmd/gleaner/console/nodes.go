package console

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// NodesOrMine reads the nodes that an owner's command is about: the host list that is its
// one operand, or "" with --mine.
func NodesOrMine(inv *option.Invocation) (list string, err error) {
	mine := inv.Given("mine")
	switch {
	case len(inv.Operands) > 1:
		return "", inv.Fail("Unrecognized option: %s\nName several nodes in one list: %s,%s, or n[1-4]", inv.Operands[1], inv.Operands[0], inv.Operands[1])
	case mine && len(inv.Operands) == 1:
		return "", inv.Fail("--mine is all nodes of your accounts; name %s, or type --mine, not both", inv.Operands[0])
	case mine:
		return "", nil
	case len(inv.Operands) == 0:
		return "", inv.Fail("no node given: name nodes, as in n1 or n[1-4], or type --mine for all nodes of the accounts that you coordinate")
	}
	names, err := spec.ParseHostList(inv.Operands[0])
	if err != nil {
		return "", inv.Fail("Invalid node name specified: %w", err)
	}
	if len(names) == 0 {
		return "", inv.Fail("no node given: the list %q is empty", inv.Operands[0])
	}
	return spec.FormatHostList(names), nil
}

package place

import (
	"slices"
	"strconv"
	"strings"
)

// Constraint says which features the nodes of a job must have (sbatch(1),
// --constraint). The zero Constraint asks for none.
type Constraint struct {
	// Each node meets it.
	Each Expression
	// Groups are met by nodes of their own: no node counts for two groups. Of
	// several ways to choose them one is found whenever there is one. Nodes
	// beyond the groups meet Each only.
	Groups []Group
	// OneOf: all nodes meet the same one of these; with none, nothing.
	OneOf []Expression
}

// Group is a number of nodes that meet an expression. A Constraint may have
// MaxGroups of them.
type Group struct {
	Count uint32
	Of    Expression
}

// MaxGroups bounds the groups of a constraint.
const MaxGroups = 64

// Expression is a condition on the features of one node, in postfix order: the
// operands of a step come before it. The empty Expression is always met.
type Expression []Step

// Step is one step of an Expression.
type Step struct {
	Op      Op
	Feature string // for Has
}

// Op says what a Step does.
type Op uint8

// Operations.
const (
	Has Op = iota // whether the node has the feature
	Not           // of the value before it
	And           // of the two values before it
	Or
)

// IsZero says that the constraint asks for nothing.
func (c Constraint) IsZero() bool {
	return len(c.Each) == 0 && len(c.Groups) == 0 && len(c.OneOf) == 0
}

// Nodes is the number of nodes that the groups need together.
func (c Constraint) Nodes() uint32 {
	sum := uint64(0)
	for _, group := range c.Groups {
		sum += uint64(group.Count)
	}
	return uint32(min(sum, 1<<32-1))
}

// Met reports whether a node with these features, ascending, meets the
// expression. Steps that lack what they work on are not met.
func (e Expression) Met(features []string) bool {
	if len(e) == 0 {
		return true
	}
	var room [16]bool
	stack := room[:0]
	for _, step := range e {
		switch top := len(stack); {
		case step.Op == Has:
			_, has := slices.BinarySearch(features, step.Feature)
			stack = append(stack, has)
		case step.Op == Not && top > 0:
			stack[top-1] = !stack[top-1]
		case step.Op == And && top > 1:
			stack = append(stack[:top-2], stack[top-2] && stack[top-1])
		case step.Op == Or && top > 1:
			stack = append(stack[:top-2], stack[top-2] || stack[top-1])
		default:
			return false
		}
	}
	return len(stack) == 1 && stack[0]
}

// And is what meets both.
func (e Expression) And(other Expression) Expression {
	if len(e) == 0 || len(other) == 0 {
		return slices.Concat(e, other)
	}
	return append(slices.Concat(e, other), Step{Op: And})
}

// String writes the expression as sbatch takes it: "ib&(fast|!old)".
func (e Expression) String() string {
	type alloc struct {
		text string
		op   Op // that was done last
	}
	var stack []alloc
	within := func(p alloc, op Op) string {
		if p.op > op {
			return "(" + p.text + ")"
		}
		return p.text
	}
	for _, step := range e {
		switch top := len(stack); {
		case step.Op == Has:
			stack = append(stack, alloc{text: step.Feature})
		case step.Op == Not && top > 0:
			stack[top-1] = alloc{text: "!" + within(stack[top-1], Not), op: Not}
		case (step.Op == And || step.Op == Or) && top > 1:
			word := map[Op]string{And: "&", Or: "|"}[step.Op]
			joined := within(stack[top-2], step.Op) + word + within(stack[top-1], step.Op)
			stack = append(stack[:top-2], alloc{text: joined, op: step.Op})
		default:
			return ""
		}
	}
	if len(stack) != 1 {
		return ""
	}
	return stack[0].text
}

// grouped is the expression as an operand of * or within brackets.
func (e Expression) grouped() string {
	if len(e) > 1 {
		return "(" + e.String() + ")"
	}
	return e.String()
}

// groupsText writes the groups as "a*2&b*1".
func (c Constraint) groupsText() string {
	words := make([]string, len(c.Groups))
	for i, group := range c.Groups {
		words[i] = group.Of.grouped() + "*" + strconv.FormatUint(uint64(group.Count), 10)
	}
	return strings.Join(words, "&")
}

// oneOfText writes the alternatives as "[a|b]".
func (c Constraint) oneOfText() string {
	words := make([]string, len(c.OneOf))
	for i, expression := range c.OneOf {
		words[i] = expression.grouped()
	}
	return "[" + strings.Join(words, "|") + "]"
}

// alternatives are constraints without OneOf, of which a placement meets one.
func (c Constraint) alternatives() []Constraint {
	if len(c.OneOf) == 0 {
		return []Constraint{c}
	}
	all := make([]Constraint, len(c.OneOf))
	for i, expression := range c.OneOf {
		all[i] = Constraint{Each: c.Each.And(expression), Groups: c.Groups}
	}
	return all
}

// groupsOf says which groups a node can be counted for, a bit for each.
func (c *Constraint) groupsOf(features []string) uint64 {
	groups := uint64(0)
	for i := range c.Groups[:min(len(c.Groups), MaxGroups)] {
		if c.Groups[i].Of.Met(features) {
			groups |= 1 << i
		}
	}
	return groups
}

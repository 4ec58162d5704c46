package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Constraint is what --constraint asks of the features of nodes (sbatch(1)).
type Constraint struct {
	// Each node meets it; empty = nothing is asked.
	Each FeatureExpression
	// Groups are met by nodes of their own: "[a*2&b*1]", or the same without
	// the brackets.
	Groups []FeatureGroup
	// OneOf: all nodes meet the same one of these: "[a|b]".
	OneOf []FeatureExpression
}

// FeatureGroup is a number of nodes that meet an expression.
type FeatureGroup struct {
	Count uint32
	Of    FeatureExpression
}

// FeatureExpression is a condition on the features of one node, in postfix
// order: the operands of a step come before it.
type FeatureExpression []FeatureStep

// FeatureStep is a feature (Op is 0), or an operation on the one value ('!')
// or the two values ('&', '|') before it.
type FeatureStep struct {
	Op      byte
	Feature string
}

// Bounds of a constraint.
const (
	MaxConstraintBytes  = 4096
	maxConstraintGroups = 16
)

// ParseConstraint reads the argument of --constraint.
//
// A feature is any text without the signs below, blanks and commas. !x is "not
// x", x&y "both", x|y "at least one"; ! binds tighter than &, and & tighter
// than |; ( ) group. All that is a condition on each node. Joined to it with &
// there may be
//
//   - x*n: n of the nodes meet x. Each count has nodes of its own, so that
//     a*2&b*4 needs six nodes, also where some have both features;
//   - one pair of brackets: [x*n&y*m], counts as above, or [x|y], the nodes all
//     meet x or all meet y.
//
// x and y are a feature, !feature, or an expression in parentheses.
func ParseConstraint(s string) (Constraint, error) {
	p := constraintParser{text: s}
	switch {
	case s == "":
		return Constraint{}, fmt.Errorf("invalid constraint: it is empty, type a feature such as ib")
	case len(s) > MaxConstraintBytes:
		return Constraint{}, fmt.Errorf("invalid constraint %q: it is longer than %d bytes, shorten it", shorten(s), MaxConstraintBytes)
	}
	p.out.Each = p.any(true)
	if p.err == nil && p.at < len(s) {
		if strings.IndexByte(")]", s[p.at]) >= 0 {
			p.failHere("nothing opens what it closes, leave it out")
		}
		p.failHere("join features with & (both) or | (at least one)")
	}
	if p.err != nil {
		return Constraint{}, p.err
	}
	return p.out, nil
}

// constraintParser reads from text at at; it keeps the first error.
type constraintParser struct {
	text     string
	at       int
	out      Constraint
	special  int // where the first count or bracket ended; 0 = there was none
	brackets bool
	err      error
}

// signs end a feature.
const signs = "&|!*()[], "

func (p *constraintParser) fail(at int, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("invalid constraint %q: character %d: %s", shorten(p.text), at+1, fmt.Sprintf(format, args...))
	}
}

// failHere says what is wrong with the next sign.
func (p *constraintParser) failHere(remedy string) {
	if p.at >= len(p.text) {
		p.fail(p.at, "it ends too early: %s", remedy)
		return
	}
	p.fail(p.at, "%q does not belong here: %s", p.text[p.at], remedy)
}

// next takes a sign if it comes next.
func (p *constraintParser) next(sign byte) bool {
	if p.err != nil || p.at >= len(p.text) || p.text[p.at] != sign {
		return false
	}
	p.at++
	return true
}

// any reads x|y|…; top says that it is not inside parentheses.
func (p *constraintParser) any(top bool) FeatureExpression {
	expression := p.all(top)
	for {
		bar := p.at
		if !p.next('|') {
			return expression
		}
		right := p.all(top)
		if p.special > 0 {
			p.fail(bar, "counts and brackets hold for all nodes: join them to the rest with &, or put the alternatives without them into [ ], as in [a|b]")
		}
		expression = joined(expression, right, '|')
	}
}

// all reads x&y&….
func (p *constraintParser) all(top bool) FeatureExpression {
	expression := p.item(top)
	for p.next('&') {
		expression = joined(expression, p.item(top), '&')
	}
	return expression
}

// joined is two expressions as one; those of counts and brackets are empty.
func joined(a, b FeatureExpression, sign byte) FeatureExpression {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	return append(slices.Concat(a, b), FeatureStep{Op: sign})
}

// item reads x, x*n or a pair of brackets. The last two go to the constraint,
// and leave nothing to be joined.
func (p *constraintParser) item(top bool) FeatureExpression {
	start := p.at
	if p.next('[') {
		if !top || p.brackets {
			p.fail(start, "there can be one pair of [ ], outside parentheses: leave this one out, or group with ( )")
		}
		p.bracketed()
		p.brackets, p.special = true, p.at
		return nil
	}
	expression := p.operand()
	star := p.at
	if !p.next('*') {
		return expression
	}
	if !top {
		p.fail(star, "a count goes outside the parentheses, as in (a&b)*2")
	}
	p.group(expression)
	p.special = p.at
	return nil
}

// operand reads a feature, !x or an expression in parentheses.
func (p *constraintParser) operand() FeatureExpression {
	switch {
	case p.err != nil:
		return nil
	case p.next('!'):
		return append(p.operand(), FeatureStep{Op: '!'})
	case p.next('('):
		expression := p.any(false)
		if !p.next(')') && p.err == nil {
			p.failHere("close the parenthesis with )")
		}
		return expression
	}
	rest := p.text[p.at:]
	end := strings.IndexAny(rest, signs)
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		p.failHere("type a feature, as in ib&avx512; & | ! ( ) [ ] and *count have a meaning, blanks and commas have none")
		return nil
	}
	p.at += end
	return FeatureExpression{{Feature: rest[:end]}}
}

// group reads the count of an expression.
func (p *constraintParser) group(of FeatureExpression) {
	start := p.at
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	count, err := strconv.ParseUint(p.text[start:p.at], 10, 32)
	switch {
	case p.err != nil:
	case start == p.at:
		p.failHere("type a number of nodes after *, as in a*2")
	case err != nil || count > MaxHostListNames:
		p.fail(start, "%s nodes are too many: at most %d", shorten(p.text[start:p.at]), MaxHostListNames)
	case count == 0:
		p.fail(start, "no nodes are asked for: type at least 1, or leave the count out")
	case len(p.out.Groups) == maxConstraintGroups:
		p.fail(start, "at most %d counts can be given", maxConstraintGroups)
	default:
		p.out.Groups = append(p.out.Groups, FeatureGroup{Count: uint32(count), Of: of})
	}
}

// bracketed reads what is between brackets, and the closing one.
func (p *constraintParser) bracketed() {
	counted, alternatives := 0, 0
	for {
		expression := p.operand()
		if p.next('*') {
			p.group(expression)
			counted++
		} else {
			p.out.OneOf = append(p.out.OneOf, expression)
			alternatives++
		}
		sign := p.at
		switch {
		case p.err != nil:
			return
		case counted > 0 && alternatives > 0:
			p.fail(sign, "counts and alternatives do not mix in [ ]: type [a*2&b*1], or [a|b]")
		case p.next(']'):
			return
		case counted > 0 && p.next('&'), alternatives > 0 && p.next('|'):
		case p.at < len(p.text) && p.text[p.at] == '&':
			p.failHere("in [ ] what is joined with & needs a count each, as in [a*2&b*1]; group with ( ) what each node must have")
		case p.at < len(p.text) && p.text[p.at] == '|':
			p.failHere("in [ ] counts are joined with &, as in [a*2&b*1]")
		default:
			p.failHere("close the bracket with ]")
		}
	}
}

package spec

import (
	"fmt"
	"strings"
	"testing"
)

// text writes an expression with all its parentheses.
func (e FeatureExpression) text() string {
	var stack []string
	for _, step := range e {
		top := len(stack)
		switch step.Op {
		case 0:
			stack = append(stack, step.Feature)
		case '!':
			stack[top-1] = "!" + stack[top-1]
		default:
			stack = append(stack[:top-2], "("+stack[top-2]+string(step.Op)+stack[top-1]+")")
		}
	}
	if len(e) == 0 {
		return ""
	}
	if len(stack) != 1 {
		panic(fmt.Sprint("not one value: ", stack))
	}
	return stack[0]
}

func (c Constraint) text() string {
	words := []string{c.Each.text()}
	for _, group := range c.Groups {
		words = append(words, fmt.Sprintf("%d of %s", group.Count, group.Of.text()))
	}
	for _, expression := range c.OneOf {
		words = append(words, "or "+expression.text())
	}
	return strings.Join(words, "; ")
}

func TestConstraint(t *testing.T) {
	for in, want := range map[string]string{
		"intel":                            "intel",
		"intel&gpu":                        "(intel&gpu)",
		"intel|amd":                        "(intel|amd)",
		"a|b&c":                            "(a|(b&c))",
		"a&b|c&!d":                         "((a&b)|(c&!d))",
		"!(a|b)&c":                         "(!(a|b)&c)",
		"!!a":                              "!!a",
		"graphics*4":                       "; 4 of graphics",
		"ib&graphics*4&fast":               "(ib&fast); 4 of graphics",
		"a*2&b*4":                          "; 2 of a; 4 of b",
		"[rack1*2&rack2*4]":                "; 2 of rack1; 4 of rack2",
		"[rack1|rack2|rack3|rack4]":        "; or rack1; or rack2; or rack3; or rack4",
		"ib&[(a&b)|!c]":                    "ib; or (a&b); or !c",
		"[(rack1|rack2)*1&(rack3)*2]":      "; 1 of (rack1|rack2); 2 of rack3",
		"[(knl&snc4&flat)*4&haswell*1]":    "; 4 of ((knl&snc4)&flat); 1 of haswell",
		"[a*1]&[":                          "character 7: there can be one pair of [ ]",
		"":                                 "it is empty",
		"a&":                               "character 3: it ends too early: type a feature",
		"a,b":                              "character 2: ',' does not belong here",
		"a b":                              "character 2: ' ' does not belong here",
		"(a|b":                             "character 5: it ends too early: close the parenthesis",
		"a)":                               "character 2: ')' does not belong here: nothing opens",
		"a]":                               "character 2: ']' does not belong here: nothing opens",
		"[a":                               "close the bracket with ]",
		"[a&b]":                            "character 3: '&' does not belong here: in [ ] what is joined with & needs a count each",
		"[a*1|b*1]":                        "character 5: '|' does not belong here: in [ ] counts are joined with &",
		"[a*1&b]":                          "counts and alternatives do not mix",
		"a*2|b":                            "character 4: counts and brackets hold for all nodes",
		"a|[b|c]":                          "character 2: counts and brackets hold for all nodes",
		"(a*2)":                            "character 3: a count goes outside the parentheses",
		"([a|b])":                          "character 2: there can be one pair of [ ]",
		"a*0":                              "character 3: no nodes are asked for",
		"a*":                               "type a number of nodes after *",
		"a*65537":                          "character 3: 65537 nodes are too many: at most 65536",
		"a*4294967296":                     "character 3: 4294967296 nodes are too many",
		"a*2*2":                            "character 4: '*' does not belong here",
		strings.Repeat("a*1&", 16) + "a*1": "character 67: at most 16 counts",
		strings.Repeat("a", MaxConstraintBytes+1): "longer than 4096 bytes",
	} {
		got, err := ParseConstraint(in)
		text := got.text()
		if err != nil {
			text = err.Error()
		}
		if err != nil && !strings.Contains(text, want) || err == nil && text != want {
			t.Errorf("%q: %s, want %s", in, text, want)
		}
	}
}

// FuzzConstraint: whatever is accepted is well formed, and what releases that
// knew & only accepted has kept its meaning.
func FuzzConstraint(f *testing.F) {
	for _, seed := range []string{"a", "a&b|!c", "[a*2&b*1]", "x&[a|(b&c)]", "((a", "a*3&b", "!", "[]", "a,b", "é&b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		c, err := ParseConstraint(in)
		former := len(in) <= MaxConstraintBytes
		for feature := range strings.SplitSeq(in, "&") {
			former = former && feature != "" && !strings.ContainsAny(feature, " |[]*()!,")
		}
		if err != nil {
			if former {
				t.Fatalf("%q was accepted once: %v", in, err)
			}
			return
		}
		if text := c.text(); former && strings.NewReplacer("(", "", ")", "").Replace(text) != in {
			t.Fatalf("%q is read as %q", in, text)
		}
		for _, group := range c.Groups {
			if group.Count == 0 || group.Of.text() == "" {
				t.Fatalf("%q: group %+v", in, group)
			}
		}
		for _, one := range c.OneOf {
			if one.text() == "" {
				t.Fatalf("%q: an empty alternative", in)
			}
		}
		if len(c.Each)+len(c.Groups)+len(c.OneOf) == 0 {
			t.Fatalf("%q asks for nothing", in)
		}
	})
}

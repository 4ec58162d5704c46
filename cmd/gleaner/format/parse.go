package format

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// ParseShort reads a format string of -o: "%[[.]size]type[suffix]…". Text
// before the first % and after each type is kept as it is, quotes included.
// Several % in a row count as one, as in Slurm. "%all" means every field,
// separated by vertical bars. In place of a size, # asks for the width of the
// widest value: see Layout.Fit.
func (t *Table[R]) ParseShort(spec string) (*Layout[R], error) {
	if len(spec) > MaxSpecBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBadFormat, MaxSpecBytes)
	}
	if strings.EqualFold(spec, "%all") {
		return t.all(), nil
	}
	prefix, rest, _ := strings.Cut(spec, "%")
	layout := &Layout[R]{prefix: prefix}
	for token := range strings.SplitSeq(rest, "%") {
		if token == "" {
			continue
		}
		shape, text, err := parseShape[R](token)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, fmt.Errorf("%w: %%%s names no field", ErrUnknownField, token)
		}
		index, ok := t.byLetter[text[0]]
		if !ok {
			return nil, fmt.Errorf("%w: %q; the letters are %s", ErrUnknownField, "%"+firstRune(text), t.Letters())
		}
		shape.field, shape.suffix = &t.fields[index], text[1:]
		if err := layout.add(shape); err != nil {
			return nil, err
		}
	}
	return layout, nil
}

// ParseLong reads a list of -O: "type[:[.][size][suffix]],…", names in any
// case, 20 characters wide without a colon, and as wide as the value with a colon
// and no size (exporters write "GresUsed:"). "All" alone means every field, separated
// by vertical bars.
func (t *Table[R]) ParseLong(spec string) (*Layout[R], error) {
	if len(spec) > MaxSpecBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBadFormat, MaxSpecBytes)
	}
	if strings.EqualFold(strings.TrimSpace(spec), "all") {
		return t.all(), nil
	}
	layout := &Layout[R]{}
	for token := range strings.SplitSeq(spec, ",") {
		if token = strings.TrimLeft(token, " \t\n"); token == "" {
			continue
		}
		name, shapeText, shaped := strings.Cut(token, ":")
		name = strings.TrimSpace(name)
		index, ok := t.byName[strings.ToLower(name)]
		if !ok {
			return nil, fmt.Errorf("%w: %q%s", ErrUnknownField, name, t.nearest(name))
		}
		shape, suffix, err := parseShape[R](shapeText)
		if err != nil {
			return nil, err
		}
		if !shaped {
			shape.width = LongWidth
		}
		shape.field, shape.suffix = &t.fields[index], suffix
		if err := layout.add(shape); err != nil {
			return nil, err
		}
	}
	return layout, nil
}

// ParseSort reads a sort list such as "P,t,-p": letters of -o, each ascending
// unless preceded by "-" ("+" says so openly, "#" is taken as "in its usual
// order"). Names of -O are understood too. The returned function compares two
// rows by the first field that differs.
func (t *Table[R]) ParseSort(spec string) (func(a, b R) int, error) {
	type key struct {
		field *Field[R]
		sign  int
	}
	if len(spec) > MaxSpecBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBadFormat, MaxSpecBytes)
	}
	var keys []key
	for token := range strings.SplitSeq(spec, ",") {
		if token = strings.TrimSpace(token); token == "" {
			continue
		}
		k := key{sign: 1}
		name := strings.TrimLeft(token, "+-#")
		if strings.Contains(token[:len(token)-len(name)], "-") {
			k.sign = -1
		}
		index, ok := t.byName[strings.ToLower(name)]
		if len(name) == 1 {
			index, ok = t.byLetter[name[0]]
		}
		if !ok {
			return nil, fmt.Errorf("%w to sort by: %q; the letters are %s", ErrUnknownField, token, t.Letters())
		}
		if k.field = &t.fields[index]; len(keys) < MaxColumns {
			keys = append(keys, k)
		}
	}
	return func(a, b R) int {
		for _, k := range keys {
			if c := k.field.compare(a, b); c != 0 {
				return c * k.sign
			}
		}
		return 0
	}, nil
}

// all is every field in the order of the table.
func (t *Table[R]) all() *Layout[R] {
	layout := &Layout[R]{}
	for i := range t.fields {
		layout.columns = append(layout.columns, column[R]{field: &t.fields[i], suffix: "|"})
	}
	if n := len(layout.columns); n > 0 {
		layout.columns[n-1].suffix = ""
	}
	return layout
}

// parseShape reads "[.][size]" and returns what follows it.
func parseShape[R any](text string) (column[R], string, error) {
	var c column[R]
	text, c.right = strings.CutPrefix(text, ".")
	if rest, ok := strings.CutPrefix(text, "#"); ok {
		c.fit = true
		return c, rest, nil
	}
	for text != "" && text[0] >= '0' && text[0] <= '9' {
		if c.width = c.width*10 + int(text[0]-'0'); c.width > MaxWidth {
			return c, "", fmt.Errorf("%w: a column is at most %d characters wide", ErrBadFormat, MaxWidth)
		}
		text = text[1:]
	}
	return c, text, nil
}

// nearest suggests the name that was meant, because it begins as what was
// typed does or is like it, or else lists all names.
func (t *Table[R]) nearest(name string) string {
	best := ""
	for _, candidate := range t.Names() {
		begins := len(name) > 2 && len(name) < len(candidate) && strings.EqualFold(candidate[:len(name)], name)
		if begins && (best == "" || len(candidate) < len(best)) {
			best = candidate
		}
	}
	if best == "" {
		best = similar.Nearest(name, t.Names())
	}
	if best == "" {
		return "; the fields are " + strings.Join(t.Names(), ",")
	}
	return "; did you mean " + best + "?"
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

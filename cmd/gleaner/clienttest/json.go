package clienttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// prettyWidth is how long a line of pretty JSON may be before it is broken.
const prettyWidth = 100

// value is a JSON value with its keys in their order.
type value struct {
	kind string // object, array, string, number, bool or null
	text string // of one that is neither object nor array
	keys []string
	kids []*value
}

// filters are what may follow a command of a dialogue after a |: JSON is shown
// to be read by humans. Each reads the whole output, which must be JSON.
var filters = map[string]func(root *value, argument string) string{
	// pretty breaks what is longer than a line.
	"pretty": func(root *value, _ string) string { return root.pretty("") + "\n" },
	// schema is the keys and types of the records in each list.
	"schema": func(root *value, _ string) string { return root.schema() },
	// pick is those keys of each record that are named.
	"pick": func(root *value, argument string) string { return root.pick(strings.Split(argument, ",")) },
}

// filtered shows the output of a command through a filter.
func filtered(t *testing.T, filter, output string) string {
	t.Helper()
	name, argument, _ := strings.Cut(filter, " ")
	show, known := filters[name]
	if !known {
		t.Fatalf("there is no filter %q", name)
	}
	for line := range strings.Lines(output) {
		CheckTerminal(t, "JSON", []byte(strings.TrimSuffix(line, "\n")))
	}
	decoder := json.NewDecoder(strings.NewReader(output))
	decoder.UseNumber()
	root, err := readValue(decoder)
	if err != nil {
		t.Fatalf("this is no JSON: %v\n%s", err, output)
	}
	if _, err := decoder.Token(); err != io.EOF {
		t.Fatalf("something follows the JSON: %v", err)
	}
	return show(root, argument)
}

func readValue(decoder *json.Decoder) (*value, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		return readKids(decoder, token)
	case json.Number:
		return &value{kind: "number", text: token.String()}, nil
	case bool:
		return &value{kind: "bool", text: fmt.Sprint(token)}, nil
	case string:
		return &value{kind: "string", text: quoted(token)}, nil
	}
	return &value{kind: "null", text: "null"}, nil
}

func readKids(decoder *json.Decoder, open json.Delim) (*value, error) {
	v := &value{kind: "array"}
	if open == '{' {
		v.kind = "object"
	}
	for decoder.More() {
		if v.kind == "object" {
			key, err := decoder.Token()
			if err != nil {
				return nil, err
			}
			v.keys = append(v.keys, key.(string))
		}
		kid, err := readValue(decoder)
		if err != nil {
			return nil, err
		}
		v.kids = append(v.kids, kid)
	}
	_, err := decoder.Token()
	return v, err
}

// quoted is a string as JSON, with < and > as they are.
func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can be encoded
	return strings.TrimSpace(out.String())
}

// pretty writes a value on one line, or where that is too long on one for each
// of its parts.
func (v *value) pretty(indent string) string {
	if v.kind != "object" && v.kind != "array" {
		return v.text
	}
	begin, end := "[", "]"
	if v.kind == "object" {
		begin, end = "{", "}"
	}
	parts := make([]string, len(v.kids))
	for i, kid := range v.kids {
		if v.kind == "object" {
			parts[i] = quoted(v.keys[i]) + ": "
		}
		parts[i] += kid.pretty(indent + "  ")
	}
	if line := begin + strings.Join(parts, ", ") + end; len(indent)+len(line) <= prettyWidth && !strings.Contains(line, "\n") {
		return line
	}
	return begin + "\n" + indent + "  " + strings.Join(parts, ",\n"+indent+"  ") + "\n" + indent + end
}

// schema writes a line for each place in the lists of an object that holds a
// plain value: its path and its types, and a ? where not every record has it.
func (v *value) schema() string {
	s := &shape{types: map[string][]string{}, seen: map[string]int{}, parents: map[string]string{}}
	for i, list := range v.kids {
		if list.kind == "array" && len(list.kids) > 0 && list.kids[0].kind == "object" {
			s.walk(v.keys[i], "", list)
		}
	}
	var out strings.Builder
	for _, path := range s.order {
		mark := ""
		switch {
		case s.seen[path] == 0:
			s.types[path] = []string{"always empty"}
		case s.types[path] == nil: // of what is in the list there are lines
			continue
		}
		if s.seen[path] < s.seen[s.parents[path]] {
			mark = "?"
		}
		fmt.Fprintf(&out, "%s%s: %s\n", path, mark, strings.Join(s.types[path], " or "))
	}
	return out.String()
}

// shape is what was seen at each path.
type shape struct {
	order   []string            // of the paths to plain values
	types   map[string][]string // by path
	seen    map[string]int      // how often a path was there
	parents map[string]string   // the path of the record around a path
}

func (s *shape) walk(path, parent string, v *value) {
	s.seen[path]++
	kind := v.kind
	switch {
	case slices.Equal(v.keys, []string{"set", "infinite", "number"}):
		kind = "{set, infinite, number}"
	case v.kind == "object":
		for i, kid := range v.kids {
			s.walk(path+"."+v.keys[i], parent, kid)
		}
		return
	case v.kind == "array":
		s.note(path+"[]", path+"[]")
		for _, kid := range v.kids {
			s.walk(path+"[]", path+"[]", kid)
		}
		return
	}
	s.note(path, parent)
	if !slices.Contains(s.types[path], kind) {
		s.types[path] = append(s.types[path], kind)
	}
}

func (s *shape) note(path, parent string) {
	if _, known := s.parents[path]; !known {
		s.order = append(s.order, path)
		s.parents[path] = parent
	}
}

// pick writes a line for each record, with the keys that are wanted.
func (v *value) pick(wanted []string) string {
	var out strings.Builder
	for _, list := range v.kids {
		for _, record := range list.kids {
			var parts []string
			for i, key := range record.keys {
				if slices.Contains(wanted, key) {
					parts = append(parts, key+"="+record.kids[i].pretty(""))
				}
			}
			if len(parts) > 0 {
				out.WriteString(strings.Join(parts, " ") + "\n")
			}
		}
	}
	return out.String()
}

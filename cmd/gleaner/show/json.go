package show

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// JSONShape is which of Slurm's shapes of JSON is printed. Slurm changed the
// types of fields between its versions, so that a client reads only one.
type JSONShape int

const (
	JSONNone JSONShape = iota
	// JSONCurrent is that of v0.0.40 and later: states are lists, numbers that
	// may be unset or infinite are objects {set, infinite, number}.
	JSONCurrent
	// JSONOld is that of v0.0.39: states are words, numbers are numbers, and an
	// unset one is null.
	JSONOld
)

// jsonShapes are the versions that --json=VERSION takes.
var jsonShapes = map[string]JSONShape{
	"":        JSONCurrent,
	"v0.0.39": JSONOld,
	"v0.0.40": JSONCurrent, "v0.0.41": JSONCurrent, "v0.0.42": JSONCurrent, "v0.0.43": JSONCurrent,
}

// JSONOption is the option of every command that can print JSON.
func JSONOption() option.Option {
	return option.Option{Long: "json", Argument: "version", OptionalArgument: true, Default: "v0.0.43",
		Help: "print JSON; v0.0.39 for the older shape, in which states are words and times plain numbers; list for the versions"}
}

// JSONShapeOf reads --json and --yaml.
func JSONShapeOf(inv *option.Invocation) (JSONShape, error) {
	name := "json"
	switch yaml := inv.Given("yaml"); {
	case yaml && inv.Given("json"):
		return JSONNone, inv.Fail("--json and --yaml cannot be used together")
	case yaml:
		name = "yaml"
	case !inv.Given("json"):
		return JSONNone, nil
	}
	word := strings.ToLower(inv.Text(name))
	if word == "list" {
		return JSONNone, listShapes(inv)
	}
	shape, known := jsonShapes[strings.TrimPrefix(word, "data_parser/")]
	if !known {
		return JSONNone, inv.Fail("there is no %s of version %q here; the versions are %s", strings.ToUpper(name), inv.Text(name),
			strings.TrimPrefix(strings.Join(slices.Sorted(maps.Keys(jsonShapes)), " "), " "))
	}
	if name == "yaml" {
		toYAML(inv)
	}
	return shape, nil
}

// listShapes answers --json=list, and ends the command.
func listShapes(inv *option.Invocation) error {
	for _, name := range slices.Sorted(maps.Keys(jsonShapes))[1:] {
		if _, err := fmt.Fprintln(inv.Stdout, "data_parser/"+name); err != nil {
			return err
		}
	}
	return option.ErrAnswered
}

// Optional is a number that may be unset or infinite.
type Optional struct {
	Shape    JSONShape
	set      bool
	infinite bool
	number   uint64
}

// MarshalJSON writes the number in its shape.
func (o Optional) MarshalJSON() ([]byte, error) {
	if o.Shape == JSONOld {
		if !o.set || o.infinite {
			return []byte("null"), nil
		}
		return json.Marshal(o.number)
	}
	// A job has some fifty of them.
	text := append(make([]byte, 0, 64), `{"set":`...)
	text = append(strconv.AppendBool(text, o.set && !o.infinite), `,"infinite":`...)
	text = append(strconv.AppendBool(text, o.infinite), `,"number":`...)
	return append(strconv.AppendUint(text, o.number, 10), '}'), nil
}

// Count is a number that is always there.
func (s JSONShape) Count(n uint64) Optional { return Optional{Shape: s, set: true, number: n} }

// Unset is a number that is not there.
func (s JSONShape) Unset() Optional { return Optional{Shape: s} }

// some is a number for which 0 means unset.
func (s JSONShape) some(n uint64) Optional { return Optional{Shape: s, set: n != 0, number: n} }

// moment is a time in Unix seconds; 0 where there is none, as Slurm has it.
func (s JSONShape) moment(ms int64) Optional {
	return Optional{Shape: s, set: true, number: uint64(max(ms, 0)) / 1000}
}

// minutes is a time limit in Slurm's unit.
func (s JSONShape) minutes(seconds uint32) Optional {
	if seconds == spec.Unlimited {
		return Optional{Shape: s, infinite: true}
	}
	return Optional{Shape: s, set: seconds != 0, number: (uint64(seconds) + 59) / 60}
}

// words is a state: a list of its base and flags, or in the old shape the
// base alone.
func (s JSONShape) words(base string, flags ...string) any {
	if s == JSONOld {
		return base
	}
	return append([]string{base}, flags...)
}

// version is how this shape calls itself.
func (s JSONShape) version() string {
	if s == JSONOld {
		return "v0.0.39"
	}
	return "v0.0.43"
}

package main

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/safejson"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// jsonShape is which of Slurm's shapes of JSON is printed. Slurm changed the
// types of fields between its versions, so that a client reads only one.
type jsonShape int

const (
	jsonNone jsonShape = iota
	// jsonCurrent is that of v0.0.40 and later: states are lists, numbers that
	// may be unset or infinite are objects {set, infinite, number}.
	jsonCurrent
	// jsonOld is that of v0.0.39 and before: states are words, numbers are
	// numbers, and an unset one is null.
	jsonOld
)

// jsonShapes are the versions that --json=VERSION takes.
var jsonShapes = map[string]jsonShape{
	"":        jsonCurrent,
	"v0.0.38": jsonOld, "v0.0.39": jsonOld,
	"v0.0.40": jsonCurrent, "v0.0.41": jsonCurrent, "v0.0.42": jsonCurrent, "v0.0.43": jsonCurrent,
}

// jsonOption is the option of every command that can print JSON.
func jsonOption() option.Option {
	return option.Option{Long: "json", Argument: "version", OptionalArgument: true, Default: "v0.0.43",
		Help: "print JSON; v0.0.39 and v0.0.38 for the older shape, in which states are words and times plain numbers"}
}

// jsonShapeOf reads --json.
func jsonShapeOf(inv *option.Invocation) (jsonShape, error) {
	if !inv.Given("json") {
		return jsonNone, nil
	}
	word := strings.ToLower(inv.Text("json"))
	shape, known := jsonShapes[strings.TrimPrefix(word, "data_parser/")]
	if !known {
		return jsonNone, inv.Fail("there is no JSON of version %q here; the versions are %s", inv.Text("json"),
			strings.TrimPrefix(strings.Join(sortedKeys(jsonShapes), " "), " "))
	}
	return shape, nil
}

// optional is a number that may be unset or infinite.
type optional struct {
	shape    jsonShape
	set      bool
	infinite bool
	number   uint64
}

// MarshalJSON writes the number in its shape.
func (o optional) MarshalJSON() ([]byte, error) {
	if o.shape == jsonOld {
		if !o.set || o.infinite {
			return []byte("null"), nil
		}
		return json.Marshal(o.number)
	}
	return json.Marshal(struct {
		Set      bool   `json:"set"`
		Infinite bool   `json:"infinite"`
		Number   uint64 `json:"number"`
	}{o.set && !o.infinite, o.infinite, o.number})
}

// count is a number that is always there.
func (s jsonShape) count(n uint64) optional { return optional{shape: s, set: true, number: n} }

// some is a number for which 0 means unset.
func (s jsonShape) some(n uint64) optional { return optional{shape: s, set: n != 0, number: n} }

// moment is a time in Unix seconds; 0 where there is none, as Slurm has it.
func (s jsonShape) moment(ms int64) optional {
	return optional{shape: s, set: true, number: uint64(max(ms, 0)) / 1000}
}

// minutes is a time limit in Slurm's unit.
func (s jsonShape) minutes(seconds uint32) optional {
	if seconds == spec.Unlimited {
		return optional{shape: s, infinite: true}
	}
	return optional{shape: s, set: seconds != 0, number: (uint64(seconds) + 59) / 60}
}

// words is a state: a list of its base and flags, or in the old shape the
// base alone.
func (s jsonShape) words(base string, flags ...string) any {
	if s == jsonOld {
		return base
	}
	return append([]string{base}, flags...)
}

// version is how this shape calls itself.
func (s jsonShape) version() string {
	if s == jsonOld {
		return "v0.0.39"
	}
	return "v0.0.43"
}

// jsonStream writes one object with a list of records, each as it comes.
type jsonStream struct {
	out   io.Writer
	shape jsonShape
	any   bool
}

func newJSONStream(out io.Writer, key string, shape jsonShape) *jsonStream {
	s := &jsonStream{out: out, shape: shape}
	_, _ = io.WriteString(out, "{\n\""+key+"\": [") // a failed write shows at the next one
	return s
}

func (s *jsonStream) add(record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	separator := "\n"
	if s.any {
		separator = ",\n"
	}
	s.any = true
	if _, err := io.WriteString(s.out, separator); err != nil {
		return err
	}
	_, err = s.out.Write(safejson.Escaped(text))
	return err
}

// next ends the list and begins another one.
func (s *jsonStream) next(key string) error {
	s.any = false
	_, err := io.WriteString(s.out, "\n],\n\""+key+"\": [")
	return err
}

// end closes the object with what every answer of Slurm's ends with.
func (s *jsonStream) end(inv *option.Invocation) error {
	meta, err := json.Marshal(map[string]any{
		"plugin":  map[string]string{"type": "gleaner/" + inv.Command.Name, "data_parser": "data_parser/" + s.shape.version()},
		"gleaner": map[string]string{"version": version},
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, "\n],\n\"meta\": "+string(meta)+",\n\"errors\": [],\n\"warnings\": []\n}\n")
	return err
}

// writeJSON prints one object whose lists are already there.
func writeJSON[T any](inv *option.Invocation, shape jsonShape, key string, records []T) error {
	stream := newJSONStream(inv.Stdout, key, shape)
	for _, record := range records {
		if err := stream.add(record); err != nil {
			return err
		}
	}
	return stream.end(inv)
}

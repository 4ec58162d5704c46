package show

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/safejson"
)

// JSONStream writes one object with a list of records, each as it comes.
type JSONStream struct {
	out   io.Writer
	key   string // of the first list
	shape JSONShape
	any   bool
}

// NewJSONStream begins an object and its first list.
func NewJSONStream(out io.Writer, key string, shape JSONShape) *JSONStream {
	s := &JSONStream{out: out, key: key, shape: shape}
	_, _ = io.WriteString(out, "{\n\""+key+"\": [") // a failed write shows at the next one
	return s
}

// Add writes one record of the list.
func (s *JSONStream) Add(record any) error {
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

// Next ends the list and begins another one.
func (s *JSONStream) Next(key string) error {
	s.any = false
	_, err := io.WriteString(s.out, "\n],\n\""+key+"\": [")
	return err
}

// End closes the object with what every answer of Slurm's ends with.
func (s *JSONStream) End(inv *option.Invocation) error {
	meta, err := json.Marshal(s.shape.meta(inv))
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, "\n],\n"+s.updates()+"\"meta\": "+string(safejson.Escaped(meta))+",\n\"errors\": [],\n\"warnings\": []\n}\n")
	return err
}

// updates are the times of the last change of a list, and of the last pass of backfill, which
// Slurm has beside lists of what its controller keeps. They are not known.
func (s *JSONStream) updates() string {
	if s.shape == JSONOld {
		return ""
	}
	const never = `: {"set":true,"infinite":false,"number":0},` + "\n"
	switch s.key {
	case "jobs":
		return `"last_backfill"` + never + `"last_update"` + never
	case "nodes", "partitions", "reservations", "licenses", "steps":
		return `"last_update"` + never
	}
	return ""
}

// WriteJSON prints one object whose lists are already there.
func WriteJSON[T any](inv *option.Invocation, shape JSONShape, key string, records []T) error {
	stream := NewJSONStream(inv.Stdout, key, shape)
	for _, record := range records {
		if err := stream.Add(record); err != nil {
			return err
		}
	}
	return stream.End(inv)
}

// WriteJSONObject prints one object that is no list.
func WriteJSONObject(inv *option.Invocation, shape JSONShape, key string, record any) error {
	text, err := json.Marshal(map[string]any{key: record, "meta": shape.meta(inv), "errors": []string{}, "warnings": []string{}})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, safejson.Escaped(text), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = out.WriteTo(inv.Stdout)
	return err
}

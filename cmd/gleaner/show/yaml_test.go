package show

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// TestYAML: YAML says what JSON says, whatever a user called a job, and a terminal obeys
// none of it.
func TestYAML(t *testing.T) {
	var records []any
	for _, name := range []string{
		"plain", "", "yes", "null", "12", "1e3", "0x10", "- a", "a: b", "# no", "'", "\"", "\\", "a\nb", "  lead", "trail ", "tab\t", "\x1b[2J", "\u202eback", "\u0085", "ünï", "😀", "*x", "&x", "!x", "{a}", "2026-01-01", "~", ".inf",
	} {
		records = append(records, map[string]any{"name": name, name: []any{name, 12, -1.5, true, nil, map[string]any{}, []any{}}})
	}
	want := map[string]any{"jobs": records, "none": []any{}, "meta": map[string]any{"a": map[string]any{"b": "c"}}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := yamlOf(&out, strings.NewReader(string(text))); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		clienttest.CheckTerminal(t, "YAML", []byte(strings.TrimSuffix(line, "\n")))
	}
	var got, same any
	if err := yaml.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(json.Unmarshal(again, &got), json.Unmarshal(text, &same)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, same) {
		t.Errorf("got\n%s\nwant\n%s\nof\n%s", again, text, out.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

// TestYAMLCut: what is cut off, and output that cannot be written, fail; nobody waits.
func TestYAMLCut(t *testing.T) {
	for _, text := range []string{"{", `{"jobs":`, `{"jobs":[{"a":1}`, `{"jobs":[{"a":`, `{"a":{"b"`, "[]", "x"} {
		if err := yamlOf(io.Discard, strings.NewReader(text)); err == nil {
			t.Errorf("%s is a document", text)
		}
	}
	inv := &option.Invocation{Stdout: broken{}}
	toYAML(inv)
	_, first := io.WriteString(inv.Stdout, `{"jobs":[1,2]}`)
	_, second := io.WriteString(inv.Stdout, `{"jobs":[1,2]}`)
	if err := inv.AtEnd(); err == nil || first == nil && second == nil {
		t.Errorf("written to a full disk: %v, %v, %v", first, second, err)
	}
}
